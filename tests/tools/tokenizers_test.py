"""l2l-tokenize against the ids and texts that the tokenizers library gave (tests/fixtures/make_tokenizer_fixtures.py).

    tokenizers_test.py TOOLS FIXTURES
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS, FIXTURES = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
ALL = json.loads((FIXTURES / "tokenizers.json").read_text())
TEXTS, TOKENIZERS = ALL["texts"], ALL["tokenizers"]


def run(*command, status=0, text=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, input=text)
    assert done.returncode == status, f"{command}: status {done.returncode}: {done.stderr.decode()}"
    return done


class Tokenizers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.folder.name)
        self.tokenizer = self.work / "tokenizer.json"

    def tearDown(self):
        self.folder.cleanup()

    def encode(self, texts, *more):
        file = self.work / "texts"
        file.write_bytes(b"".join(text.encode() + b"\0" for text in texts))
        lines = run(TOOLS / "l2l-tokenize", self.tokenizer, file, "--null", *more).stdout.decode().split("\n")
        return [list(map(int, line.split())) for line in lines[:-1]]

    def decode(self, ids, *more):
        lines = "".join(" ".join(map(str, one)) + "\n" for one in ids).encode()
        return run(TOOLS / "l2l-tokenize", self.tokenizer, "-", "--decode", "--null", *more, text=lines).stdout.decode().split("\0")[:-1]

    def test_ids_and_texts(self):
        for name, fixture in TOKENIZERS.items():
            self.tokenizer.write_text(json.dumps(fixture["tokenizer"]))
            for text, ours, theirs in zip(TEXTS, self.encode(TEXTS), fixture["ids"], strict=True):
                with self.subTest(name, text=text):
                    self.assertEqual(ours, theirs)
            with self.subTest(name, what="special tokens"):
                self.assertEqual(self.encode([TEXTS[3]], "--special"), [fixture["special"]])
            for more, key in (([], "decoded"), (["--special"], "with_special")):
                for ours, theirs, ids in zip(self.decode(fixture["ids"], *more), fixture[key], fixture["ids"], strict=True):
                    with self.subTest(name, ids=ids, key=key):
                        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
