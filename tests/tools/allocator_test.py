"""What malloc() holds, by role: in the contract, the metrics, run.json and the last line; and a run with another malloc().

    allocator_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
TRAIN = TOOLS / "l2l-train"
HAS_JEMALLOC = os.environ.get("L2L_JEMALLOC") == "1"
ROLES = ["engine", "planning", "text", "staging"]
MIB = 2**20
CONFIG = """
[model]
layers = 2
hidden = 32
heads = 2
sequence = 32
[data]
train = ["text"]
[batch]
micro_batch = 1
micro_batches = 2
[recompute]
policy = "full"
[checkpoint]
every = 4
[run]
steps = 12
"""


def other_malloc():
    """LD_PRELOAD by which malloc() and operator new are those of the C and C++ libraries."""
    linked = subprocess.run(["ldd", TRAIN], capture_output=True, text=True, check=True).stdout
    return " ".join(re.search(rf"{name}\S* => (\S+)", linked)[1] for name in (r"libstdc\+\+\.so", r"libc\.so"))


class AllocatorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 200)
        (self.path / "run.toml").write_text(CONFIG)

    def run_tool(self, *arguments, **variables):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.path / "cache"), **variables}
        done = subprocess.run([TRAIN, "run.toml", *arguments], cwd=self.path, capture_output=True, text=True, timeout=100, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def train(self, *arguments, **variables):
        out, messages = self.run_tool(*arguments, **variables)
        return json.loads(out.splitlines()[-1]), messages

    def records(self, metrics):
        lines = [json.loads(line) for line in (self.path / metrics).read_text().splitlines()]
        return [line for line in lines if "allocator" in line]

    def expect_none(self, summary, messages, metrics):
        self.assertIsNone(summary["allocator"])
        self.assertEqual(self.records(metrics), [])
        self.assertNotIn("malloc() now", messages)

    def check(self, allocator):
        self.assertRegex(allocator["name"], r"^jemalloc 5\.\d+\.\d+$")
        self.assertEqual(list(allocator["roles"]), ROLES)
        for role, bytes_of in allocator["roles"].items():
            self.assertEqual(list(bytes_of), ["allocated", "resident"])
            self.assertLess(bytes_of["resident"], 64 * MIB, role)
        for role in ("engine", "planning", "text"):
            self.assertGreater(allocator["roles"][role]["allocated"], 0, role)

    @unittest.skipUnless(HAS_JEMALLOC, "built without jemalloc")
    def test_it_is_told_of(self):
        summary, messages = self.train("--output", "out")
        self.check(summary["allocator"])
        self.assertLess(sum(role["resident"] for role in summary["allocator"]["roles"].values()), summary["host_bytes"])
        records = self.records("out/metrics.jsonl")
        self.assertEqual(len(records), 3)  # one for each save, some steps after it
        self.assertEqual(records[-1]["step"], 12)
        for line in records:
            self.check(line["allocator"])
        self.check(json.loads((self.path / "out/run.json").read_text())["memory"]["allocator"])
        table = messages[messages.index("malloc() now, part of host (jemalloc 5."):]
        for role in ROLES:
            self.assertRegex(table, rf"(?m)^    {role} +[\d.]+ \wi?B$")

    @unittest.skipUnless(HAS_JEMALLOC, "built without jemalloc")
    def test_documents_take_what_the_contract_says(self):
        """The role holds little else; the line has what is there for a moment, too."""
        rows = 40_000
        (self.path / "rows.jsonl").write_text('{"text": "ab"}\n' * rows)
        summary, _ = self.train("--output", "out", "--set", "data.train=['rows.jsonl']", "--set", "data.samples=packed")
        host = json.loads((self.path / "out/run.json").read_text())["memory"]["host"]
        documents = next(line["bytes"] for line in host if line["what"] == "documents of the training data")
        self.assertGreater(documents, 4 * MIB)
        self.assertLess(summary["allocator"]["roles"]["text"]["allocated"], documents)
        self.assertGreater(summary["allocator"]["roles"]["text"]["allocated"], documents / 4)

    @unittest.skipUnless(HAS_JEMALLOC, "built without jemalloc")
    def test_another_malloc_before_it(self):
        expected, _ = self.train("--set", "checkpoint.directory=first")
        summary, messages = self.train("--metrics", "m", "--set", "checkpoint.directory=second", LD_PRELOAD=other_malloc())
        self.expect_none(summary, messages, "m")
        self.assertEqual(summary["weights_hash"], expected["weights_hash"])

    @unittest.skipUnless(HAS_JEMALLOC, "built without jemalloc")
    def test_settings(self):
        settings = {"background_thread": "true", "dirty_decay_ms": "1000", "muzzy_decay_ms": "0",
                    "retain": "false", "narenas": "4"}
        for own, expected in (("", settings), (",dirty_decay_ms:5000", {**settings, "dirty_decay_ms": "5000"})):
            _, messages = self.run_tool("--quiet", "--dry-run", MALLOC_CONF="stats_print:true,stats_print_opts:mdablxe" + own)
            for setting, value in expected.items():
                self.assertRegex(messages, rf"opt\.{setting}: {value}\b")
            self.assertIn("Background threads: 1,", messages)

    @unittest.skipIf(HAS_JEMALLOC, "built with jemalloc")
    def test_without_it(self):
        self.expect_none(*self.train("--metrics", "m"), "m")


if __name__ == "__main__":
    unittest.main()
