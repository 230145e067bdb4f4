"""l2l-plan --trace on what a file can hold: refused with exit status 2, file, line and field, or simulated.

    plan_trace_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

SANITIZED = os.environ.get("L2L_SANITIZED") == "1"
TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
START = {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
HEURISTICS = ("dtr", "dtr_eq", "local", "lru", "size", "msps")


def constant(name, size):
    return [{"INSTRUCTION": "CONSTANT", "NAME": name}, {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": str(size)}]


def call(args, result, size, nanoseconds, alias=-1):
    return [{"INSTRUCTION": "CALL", "NAME": "op", "ARGS": args, "RESULT": [result], "TIME": str(nanoseconds)},
            {"INSTRUCTION": "MEMORY", "NAME": result, "MEMORY": str(size)},
            {"INSTRUCTION": "ALIAS", "NAME": result, "ALIAS": str(alias)}]


def release(name):
    return [{"INSTRUCTION": "RELEASE", "NAME": name}]


def chain(layers, size=1, nanoseconds=1):
    """Forward and backward of a linear network; gradients need the forward tensor one layer below."""
    records = [START]
    for i in range(layers):
        records += call([f"f{i - 1}"] if i else [], f"f{i}", size, nanoseconds)
    records += release(f"f{layers - 1}") + call([], f"b{layers - 1}", size, nanoseconds)
    for i in reversed(range(layers - 1)):
        records += release(f"f{i}")
        records += call(([f"f{i - 1}"] if i else []) + [f"b{i + 1}"], f"b{i}", size, nanoseconds)
        records += release(f"b{i + 1}")
    return records


class PlanTrace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "t.log"

    def tearDown(self):
        self.folder.cleanup()

    def run_on(self, records, *options):
        if isinstance(records, bytes):
            self.file.write_bytes(records)
        elif records is not None:
            self.file.write_text("".join(json.dumps(record) + "\n" for record in records))
        process = subprocess.run([TOOLS / "l2l-plan", "--trace", self.file, *options], capture_output=True, timeout=240)
        return process.returncode, process.stdout.decode(), process.stderr.decode(errors="replace")

    def refused(self, records, *names, options=()):
        status, out, err = self.run_on(records, *options)
        self.assertEqual((status, out), (2, ""), err)
        for name in names:
            self.assertIn(name, err)

    def simulated(self, records, *options):
        status, out, err = self.run_on(records, *options)
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(len(out.splitlines()), 1)
        return json.loads(out)

    def test_what_is_printed(self):
        records = [START] + constant("c", 100) + call(["c"], "x", 50, 1000) + call(["x"], "v", 50, 10, alias=0)
        found = self.simulated(records)
        self.assertEqual(found, {"trace": str(self.file), "budget": 0, "heuristic": "dtr_eq", "ops": 3, "base_ns": 1010,
                                 "total_ns": 1010, "overhead": 1011 / 1010, "evictions": 0, "released": 0,
                                 "rematerializations": 0, "peak_bytes": 150, "unbudgeted_peak_bytes": 150,
                                 "failed": None})

    def test_budgets(self):
        records = chain(100, 1 << 20, 1000)
        free = self.simulated(records, "--budget", "0")
        self.assertEqual((free["peak_bytes"], free["rematerializations"], free["released"]), (100 << 20, 0, 199))
        self.assertEqual(free, self.simulated(records))
        before = 1.0
        for budget in ("80MiB", "40MiB", "20MiB"):
            found = self.simulated(records, "--budget", budget)
            self.assertEqual(found["budget"], int(budget[:-3]) << 20)
            self.assertEqual(found["unbudgeted_peak_bytes"], 100 << 20)
            self.assertLessEqual(found["peak_bytes"], found["budget"])
            self.assertEqual(found["base_ns"], 200_000)
            self.assertEqual(found["total_ns"], 200_000 + 1000 * found["rematerializations"])
            self.assertAlmostEqual(found["overhead"], (found["total_ns"] + 1) / 200_000, 12)
            self.assertGreater(found["overhead"], before)
            self.assertGreater(found["evictions"], 0)
            self.assertIsNone(found["failed"])
            before = found["overhead"]
            self.assertEqual(found, self.simulated(records, "--budget", budget))
        self.assertEqual(self.simulated(records, "--budget", str(80 << 20))["budget"], 80 << 20)

    def test_heuristics(self):
        """Published figures of the paper's linear network; what fails is a result as well."""
        records = chain(512)
        for budget, most in (("46", 485), ("9", 2255)):
            for heuristic in HEURISTICS:
                found = self.simulated(records, "--budget", budget, "--heuristic", heuristic)
                self.assertEqual(found["heuristic"], heuristic)
                if heuristic.startswith("dtr"):
                    extra = found["total_ns"] - found["base_ns"]
                    self.assertTrue(extra <= most or found["failed"] == "thrashing", found)
        self.assertEqual(self.simulated(records, "--budget", "46", "--heuristic", "dtr_eq")["rematerializations"], 485)

    def test_failures_are_results(self):
        found = self.simulated(chain(512), "--budget", "9")
        self.assertEqual(found["failed"], "thrashing")
        self.assertEqual(found["rematerializations"], 1025)
        found = self.simulated(chain(512), "--budget", "2")
        self.assertEqual(found["failed"], "out of memory")
        found = self.simulated([START] + constant("c", 10), "--budget", "9")
        self.assertEqual((found["failed"], found["peak_bytes"]), ("out of memory", 0))

    def test_unreferenced_and_shortcuts(self):
        records = [START] + constant("c", 100) + call(["c"], "x", 50, 10) + release("c") + call(["x"], "y", 50, 10)
        self.assertEqual(self.simulated(records)["peak_bytes"], 200)
        self.assertEqual(self.simulated(records, "--unreferenced", "banish")["peak_bytes"], 150)
        self.assertEqual(self.simulated(chain(50), "--unreferenced", "keep")["peak_bytes"], 100)
        found = self.simulated(chain(300), "--budget", "60", "--shortcut", "small", "sample", "batch")
        self.assertIsNone(found["failed"])
        self.assertLessEqual(found["peak_bytes"], 60)

    def test_files_that_are_none(self):
        self.refused(None, "t.log: cannot be read")
        self.refused(b"", "t.log: has no record")
        self.refused(b"\0\0\0", "t.log:1: is not a JSON object")
        self.refused(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "t.log:1: is not a JSON object")
        self.refused(json.dumps(START).encode() + b"\n" + b"x" * (3 << 20), "t.log:2: is longer than 1048576 bytes")
        self.refused(json.dumps(START).encode() + b"\n" + b"[" * 500_000, "t.log:2: is not a JSON object")
        for deep, reason in ((300_000, "is not a JSON object"), (100, "INSTRUCTION: a list is not a string")):
            self.refused(json.dumps(START).encode() + b'\n{"INSTRUCTION":' + b"[" * deep + b"]" * deep + b"}", f"t.log:2: {reason}")
        self.file = pathlib.Path(self.folder.name)
        self.refused(None, str(self.file))

    def test_records_that_are_none(self):
        x = call([], "x", 1, 1)
        self.refused([START, {"NAME": "x"}], "t.log:2: INSTRUCTION: is missing")
        self.refused([START, {"INSTRUCTION": "DROP"}], "t.log:2: INSTRUCTION: 'DROP' is none of")
        self.refused([START] + x + call(["y"], "z", 1, 1), "t.log:5: ARGS: there is no tensor 'y'")
        self.refused([START] + x + x, "t.log:5: RESULT: 'x' was there before, in line 2")
        self.refused([START] + x[:2], "t.log:2: ALIAS of 'x' is missing at the end of the file")
        self.refused([START] + call([], "x", -1, 1), "t.log:3: MEMORY: \"-1\" is not a whole number from 0")
        self.refused([START] + call([], "x", 2**64, 1), "t.log:3: MEMORY: ")
        self.refused([START] + call([], "x", 2**59, 1) + call([], "y", 2**60, 1), "t.log:5: MEMORY: ", "2^60")
        self.refused([START] + call([], "x", 1, "soon"), "t.log:2: TIME: \"soon\" is not a whole number")
        self.refused([START] + call([], "x", 1, 2**62), "t.log:2: TIME: ")
        self.refused([START] + x + call(["x"], "z", 1, 1, alias=1), "t.log:7: ALIAS: \"1\" is not a whole number")
        self.refused([START] + x + release("x") + release("x"), "t.log:6: NAME: 'x' has no reference left")

    def test_arguments(self):
        good = chain(4)
        self.refused(good, "8XB", options=("--budget", "8XB"))
        self.refused(good, "--heuristic", options=("--heuristic", "random"))
        self.refused(good, "--unreferenced", options=("--unreferenced", "free"))
        self.refused(good, "--shortcut", options=("--shortcut", "guess"))
        self.refused(good, "--trace", options=("--problem", "p.csv"))
        self.refused(good, "--trace", options=("run.toml",))
        for option in (("--set", "run.steps=1"), ("--check",), ("--no-measure",)):
            self.refused(good, "--trace", option[0], options=option)
            process = subprocess.run([TOOLS / "l2l-plan", "--problem", "p.csv", *option], capture_output=True, text=True)
            self.assertEqual(process.returncode, 2)
            self.assertRegex(process.stderr, f"{option[0]} excludes --problem|--problem excludes {option[0]}")
        process = subprocess.run([TOOLS / "l2l-plan", "--budget", "5"], capture_output=True)
        self.assertEqual(process.returncode, 2)

    def test_many_ops(self):
        records = chain(5_000 if SANITIZED else 50_000, 4096, 1000)
        for heuristic in ("lru", "size", "local", "dtr_eq"):
            start = time.monotonic()
            found = self.simulated(records, "--budget", "8MiB", "--heuristic", heuristic)
            self.assertLess(time.monotonic() - start, 100)
            self.assertIn(found["failed"], (None, "thrashing"))
        self.assertIsNone(found["failed"])


if __name__ == "__main__":
    unittest.main()
