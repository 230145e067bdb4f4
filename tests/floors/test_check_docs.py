"""The negative control of check_docs.py: each wrong reference is caught; right ones are not."""
import pathlib
import tempfile
import unittest

from check_docs import not_executable, offences

TREE = {"core/bytes.h": "", "device/kernels/add.cpp": "", "docs/guide.md": "# Guide\n\n## The plan, in `steps`\n",
        "CONTRIBUTING.md": "# Working\n"}

OFFENCES = [
    ("README.md", "see `core/words.h`", "core/words.h is not in the tree"),
    ("README.md", "see `core/words`", "core/words is not in the tree"),
    ("README.md", "run `python3 tools/gone.py build/tools`", "tools/gone.py is not in the tree"),
    ("README.md", "without backticks core/words.h.", "core/words.h is not in the tree"),
    ("README.md", "`device/kernels/NAME.cu`", "device/kernels/NAME.cu is not in the tree"),
    ("README.md", "[guide](guide.md)", "guide.md is not in the tree"),
    ("README.md", "[guide](docs/guide.md#the-end)", "docs/guide.md has no heading #the-end"),
    ("README.md", "[below](#below)", "README.md has no heading #below"),
    ("docs/other.md", "[working](CONTRIBUTING.md)", "docs/CONTRIBUTING.md is not in the tree"),
    ("core/dtype.h", "int a;  // as core/words.h", "core/words.h is not in the tree"),
    ("core/dtype.h", "// (docs/gone.md)", "gone.md is not in the tree"),
    ("core/dtype.h", "// (GONE.md, Plan)", "GONE.md is not in the tree"),
    ("core/dtype.h", "// (docs/guide.md, The end)", "docs/guide.md has no heading The end"),
]

ALLOWED = [
    ("README.md", "`core/bytes.h`, `core/`, `device/kernels/NAME.cpp`, `build/tools/x`, and/or, fp32/bf16"),
    ("README.md", "```\nsee core/words.h and [guide](guide.md)\n```"),
    ("README.md", "[guide](docs/guide.md#the-plan-in-steps), [site](https://example.org/a.h#b)"),
    ("README.md", "# Here\n[here](#here)"),
    ("docs/other.md", "[guide](guide.md), [working](../CONTRIBUTING.md#working)"),
    ("core/dtype.h", "// (docs/guide.md, The plan) and other/spec.md, other/words.h, core/bytes.h"),
    ("core/dtype.h", '#include "core/words.h"'),
]


class Documents(unittest.TestCase):
    def test_wrong_references_are_caught(self):
        for path, line, reason in OFFENCES:
            with self.subTest(path=path, line=line):
                found = list(offences({**TREE, path: "\n" + line}))
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(f"{path}:2: "), found[0])
                self.assertIn(reason, found[0])

    def test_right_references_pass(self):
        for path, text in ALLOWED:
            with self.subTest(path=path, text=text):
                self.assertEqual(list(offences({**TREE, path: text})), [])

    def test_a_script_that_cannot_be_run_is_caught(self):
        with tempfile.TemporaryDirectory() as root:
            script = pathlib.Path(root, "tools/compare/rival.py")
            script.parent.mkdir(parents=True)
            script.write_text("#!/usr/bin/env python3\n")
            self.assertEqual(list(not_executable(root)), ["tools/compare/rival.py:1: begins with #! and is not executable"])
            script.chmod(0o755)
            self.assertEqual(list(not_executable(root)), [])


if __name__ == "__main__":
    unittest.main()
