"""What l2l-plan and l2l-train measure: for some seconds, shown, kept, and no more of it on a dry run.

    measuring_test.py FOLDER_OF_THE_TOOLS
"""
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import time
import unittest

SANITIZED = os.environ.get("L2L_SANITIZED") == "1"
TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
CONFIG = """
[model]
layers = 4
hidden = 64
heads = 4
sequence = 64
[data]
train = ["text"]
[batch]
micro_batch = 2
micro_batches = 2
[device]
kind = "host"
[recompute]
policy = "full"
[run]
steps = 1
"""
AUTO = ["--set", "recompute.policy=auto"]
SHOWN = re.compile(r"measuring (\d+) of (\d+): \S.* \(about \d+ s\)")


class MeasuringTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.calibration = self.path / "calibration.json"
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "run.toml").write_text(CONFIG)

    def tearDown(self):
        self.folder.cleanup()

    def environment(self, **more):
        return os.environ | {"L2L_CALIBRATION": str(self.calibration), "L2L_CUDA_MODULE": "", "TERM": "xterm"} | more

    def run_tool(self, tool, *arguments, **more):
        done = subprocess.run([TOOLS / tool, "run.toml", *arguments], cwd=self.path, capture_output=True, text=True,
                              env=self.environment(**more), timeout=3000 if SANITIZED else 300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def plan(self, *arguments, **more):
        out, err = self.run_tool("l2l-plan", *arguments, **more)
        return json.loads(out), err

    def on_terminal(self, *arguments):
        """What l2l-plan shows where standard output and standard error are a terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([TOOLS / "l2l-plan", "run.toml", *arguments], cwd=self.path, stdout=theirs, stderr=theirs,
                                   env=self.environment(COLUMNS="100"))
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # its other end is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0, shown)
        return shown.decode()

    def test_measuring_is_shown_and_what_it_finds_is_kept(self):
        for arguments in ([], AUTO):
            with self.subTest(arguments=arguments):
                self.calibration.unlink(missing_ok=True)
                first, err = self.plan(*arguments)
                self.assertRegex(err, SHOWN)
                self.assertLess(len(SHOWN.findall(err)), 4, "a line every few seconds is enough")
                self.assertIn(f"; kept in {self.calibration}\n", err)
                again, err = self.plan(*arguments)
                self.assertNotIn("measuring", err)
                self.assertEqual((again["time"]["measured"], again["time"]["step_ms"]), (0, first["time"]["step_ms"]))
                self.assertEqual(again["time"]["work"], first["time"]["work"])
                self.assertEqual(again["recomputation"], first["recomputation"])

    @unittest.skipIf(SANITIZED, "sanitizers take their time")
    def test_seconds_are_enough(self):
        for arguments in ([], AUTO, [*AUTO, "--set", "model.hidden=512", "--set", "model.sequence=256"]):
            with self.subTest(arguments=arguments):
                self.calibration.unlink(missing_ok=True)
                begin = time.monotonic()
                self.plan(*arguments, L2L_MEASURING_TIME="1")
                self.assertLess(time.monotonic() - begin, 12)  # 3 of measuring, on a machine that others use

    def test_without_time_figures_are_estimated_and_a_check_measures_them(self):
        first, err = self.plan(*AUTO, L2L_MEASURING_TIME="1e-9")
        self.assertEqual(first["time"]["measured"], 0)
        self.assertGreater(first["time"]["estimated"], 5)
        self.assertIn("estimated (l2l-plan --check measures them)", err)
        self.assertRegex(err, "recomputation: chosen .*from 0 measured and [0-9]+ estimated figures")
        again, err = self.plan(*AUTO)
        self.assertNotIn("measuring", err)
        self.assertEqual(again["time"]["work"], first["time"]["work"])
        checked, err = self.plan(*AUTO, "--check")
        self.assertRegex(err, SHOWN)
        self.assertEqual(checked["time"]["estimated"], 0)
        self.assertNotIn("estimated", err)
        after, _ = self.plan(*AUTO)
        self.assertEqual(after["time"]["work"], checked["time"]["work"])
        self.assertEqual(after["time"]["step_ms"], checked["time"]["step_ms"])

    def test_a_time_that_is_none_is_warned_of_once(self):
        for time_, said in (("abc", 1), ("0", 1), ("2", 1), ("nan", 1), ("0.1x", 1), ("", 0), ("0.1", 0)):
            self.calibration.unlink(missing_ok=True)
            _, err = self.plan(*AUTO, L2L_MEASURING_TIME=time_)
            self.assertEqual(err.count(f"warning: L2L_MEASURING_TIME={time_}: is no number in (0, 1]; ignored"), said, err)

    def test_a_check_uses_what_is_kept_and_keeps_what_it_finds(self):
        first, err = self.plan("--check")
        self.assertGreater(first["time"]["measured"], 5)
        self.assertGreater(first["time"]["measured_ms"], 0)
        self.assertIn(f"kept in {self.calibration}\n", err)
        again, _ = self.plan("--check")
        self.assertEqual(again["time"]["measured"], 0)
        self.assertEqual(again["time"]["cached"], first["time"]["measured"])
        self.assertEqual(again["time"]["step_ms"], first["time"]["step_ms"])
        _, err = self.plan("--check", L2L_CALIBRATION="", XDG_CACHE_HOME="", HOME="")
        self.assertIn("not kept: set L2L_CALIBRATION to a file", err)

    def test_a_dry_run_waits_for_nothing(self):
        begin = time.monotonic()
        _, err = self.run_tool("l2l-train", "--dry-run", *AUTO)
        if not SANITIZED:
            self.assertLess(time.monotonic() - begin, 5)  # a second on an idle machine
        self.assertNotIn("measuring", err)
        self.assertIn("l2l-train and tune() measure first, for some seconds, and may choose otherwise", err)
        self.assertFalse(self.calibration.exists())
        # It shows what a run does once there are figures.
        _, trained = self.run_tool("l2l-train", *AUTO)
        self.assertRegex(trained.splitlines()[0], SHOWN)
        _, err = self.run_tool("l2l-train", "--dry-run", *AUTO)
        self.assertNotIn("may choose otherwise", err)
        chosen = [[line for line in text.splitlines() if "recomputation: " in line] for text in (trained, err)]
        self.assertEqual(*chosen)

    def test_a_terminal_gets_a_line_that_goes_and_no_json(self):
        shown = self.on_terminal()
        self.assertRegex(shown, "\r" + SHOWN.pattern + re.escape("\033[K"))
        self.assertIn("\r\033[K", shown)  # it goes
        self.assertIn("time of a step", shown)
        self.assertNotIn('{"parameters"', shown)
        self.assertIn('{"parameters"', self.on_terminal("--json"))

    def test_no_line_is_long(self):
        (self.path / "run.toml").write_text(CONFIG.replace('kind = "host"', 'kind = "auto"'))
        _, err = self.run_tool("l2l-train", "--dry-run")
        self.assertLess(max(len(line) for line in err.splitlines()), 200, err)
        self.assertEqual(err.count("CUDA") + err.count("NVIDIA"), 1, err)


if __name__ == "__main__":
    unittest.main()
