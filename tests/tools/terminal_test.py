#!/usr/bin/env python3
"""What l2l-train shows on a terminal and in a log while it trains.

    terminal_test.py FOLDER_OF_THE_TOOLS
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
CONFIG = """
[model]
layers = 2
hidden = 32
heads = 2
sequence = 32
[data]
train = ["text"]
validation = ["held"]
[batch]
micro_batch = 2
micro_batches = 2
[device]
kind = "host"
threads = 1
[transfer]
link_bandwidth = 1000000     # a step takes some tenths of a second, so that each is shown
[run]
steps = 8
validate_every = 3
"""
ERASE = "\033[K"


def set_columns(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))


def press_control_c(terminal):
    os.write(terminal, b"\x03")


class TerminalTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (self.path / "held").write_text("the quick brown fox jumps over the lazy dog. " * 3)
        (self.path / "run.toml").write_text(CONFIG)

    def tearDown(self):
        self.folder.cleanup()

    def on_terminal(self, columns, *arguments, then=(), status=0, **environment):
        """What stderr shows on a terminal that is so wide (0: does not say). `then`: what is done to the terminal when a text has come."""
        ours, theirs = pty.openpty()
        set_columns(ours, columns)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        process = subprocess.Popen([TOOLS / "l2l-train", "run.toml", *arguments], cwd=self.path, stdout=subprocess.DEVNULL, stderr=theirs,
                                   env={**os.environ, "TERM": "xterm", **environment}, preexec_fn=own_terminal)
        os.close(theirs)
        shown, seen, then = "", 0, list(then)
        while piece := self.read(ours):
            shown += piece
            while then and (place := shown.find(then[0][0], seen)) >= 0:
                seen = place + len(then[0][0])
                then.pop(0)[1](ours)
        os.close(ours)
        self.assertEqual(process.wait(), status, shown)
        self.assertEqual(then, [])
        return shown

    @staticmethod
    def read(terminal):
        try:
            return os.read(terminal, 4096).decode()
        except OSError:  # the process has ended
            return ""

    @staticmethod
    def rewritten(shown):
        """The lines of progress, in order."""
        return [line for line in re.findall("\r([^\r\n]*?)" + re.escape(ERASE), shown) if line.startswith("step ")]

    def test_the_line_fits_and_drops_the_least_useful_part_first(self):
        kept = {}
        for columns in (200, 80, 50, 20):
            lines = self.rewritten(self.on_terminal(columns))
            self.assertGreaterEqual(len(lines), 4)
            for line in lines:
                self.assertLess(len(line), columns)
            kept[columns] = lines[-1]
        for text in ("step 8/8", "loss ", "tokens/s", "ETA 0:00", "validation ", " ms", "compute ", "waits: weights"):
            self.assertIn(text, kept[200])
        for text in ("step 8/8", "loss ", "tokens/s", "ETA 0:00", "validation "):
            self.assertIn(text, kept[80])
        self.assertNotIn("waits", kept[80])
        for text in ("step 8/8", "loss ", "ETA 0:00"):
            self.assertIn(text, kept[50])
        self.assertNotIn("validation", kept[50])
        self.assertIn("step 8/8", kept[20])

    def test_the_line_follows_a_terminal_that_is_resized(self):
        lines = self.rewritten(self.on_terminal(120, then=[("step 3/", lambda terminal: set_columns(terminal, 40))]))
        self.assertGreater(len(lines[0]), 60)
        for line in lines[-3:]:
            self.assertLess(len(line), 40)

    def test_a_terminal_that_does_not_say_how_wide_it_is(self):
        for columns, environment in ((80, {}), (60, {"COLUMNS": "60"}), (80, {"COLUMNS": "wide"})):
            longest = max(len(line) for line in self.rewritten(self.on_terminal(0, **environment)))
            self.assertTrue(columns - 30 < longest < columns, longest)

    def test_what_is_said_before_the_first_step_fits(self):
        settings = ("--set", "recompute.policy=auto", "--set", "transfer.stash=host")
        calibration = {"L2L_CALIBRATION": str(self.path / "calibration.json")}
        for measured, expected in ((False, "time of a step: not known"), (True, "parameter server   ")):
            if measured:
                subprocess.run([TOOLS / "l2l-plan", "run.toml", *settings], cwd=self.path, check=True, capture_output=True, timeout=100,
                               env={**os.environ, **calibration})
            shown = self.on_terminal(80, "--dry-run", *settings, **calibration)
            for line in shown.splitlines():
                self.assertLessEqual(len(line), 80)
            self.assertIn("recomputation: 2 blocks ", shown)
            self.assertIn(expected, shown)

    def test_validation_has_a_line_of_its_own(self):
        shown = self.on_terminal(80, "--metrics", "m.jsonl")
        for step in (3, 6):
            self.assertRegex(shown, rf"\nstep {step}  validation loss [0-9.]+\r\n|{re.escape(ERASE)}step {step}  validation loss [0-9.]+\r\n")
        self.assertRegex(shown, r"step 1/8  [^\r]*ETA \d:\d\d and 3 validations")
        self.assertRegex(shown, r"step 4/8  [^\r]*ETA \d:\d\d  ")
        lines = [json.loads(line) for line in (self.path / "m.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "validation_loss" in line], [3, 6, 8])

    def test_control_c_says_at_once_what_comes_and_how_to_give_up(self):
        first = r"Ctrl-C: finishing step [0-9]+( \(about [0-9]+ s\))?, then saving in checkpoints/run; Ctrl-C twice more to stop without saving"
        shown = self.on_terminal(80, then=[("step 1/", press_control_c)])
        self.assertRegex(shown, first)
        self.assertRegex(shown, "interrupted by SIGINT: step [12] is finished; saving")
        self.assertEqual(len(list(self.path.glob("checkpoints/run/step-*"))), 1)
        shown = self.on_terminal(80, "--set", "transfer.link_bandwidth=200000",  # a step of seconds
                                 then=[("step 1/", press_control_c), ("Ctrl-C: ", press_control_c), ("once more within 3 s", press_control_c)],
                                 status=-signal.SIGINT)
        self.assertRegex(shown, first)
        self.assertEqual(list(self.path.glob("checkpoints/run/step-*")), [])

    def test_a_log_gets_few_lines_and_no_escapes(self):
        for how in ({}, {"TERM": "dumb"}):
            if how:
                shown = self.on_terminal(80, **how).replace("\r\n", "\n")
            else:
                done = subprocess.run([TOOLS / "l2l-train", "run.toml"], cwd=self.path, capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 0, done.stderr)
                shown = done.stderr
            self.assertNotIn("\r", shown)
            self.assertNotIn("\033", shown)
            # The first step and the last: a run of two seconds is none of 30.
            self.assertEqual(re.findall("^step ([0-9]+)/8  loss .*waits: weights", shown, re.MULTILINE), ["1", "8"])


if __name__ == "__main__":
    unittest.main()
