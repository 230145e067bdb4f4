"""l2l-train is killed at random moments, resumed, and killed again: what was saved is never lost, and the last checkpoint has
the bytes of a run that nobody killed. Also: what a disk that is full does to it.

    crash_test.py FOLDER_OF_THE_TOOLS [--kills N] [--seed N]

N kills in all (default 80), spread over as many runs as that takes. Prints how many hit a save.
"""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CONFIG = """
[model]
layers = 2
hidden = 16
heads = 2
sequence = 16
dropout = 0.1
[data]
train = ["text"]
[batch]
micro_batch = 2
micro_batches = 2
[optimizer]
learning_rate = 1e-2
clip = "global"
[device]
threads = 1
[eps]
threads = 1
[checkpoint]
every = 1
keep = 2
[run]
steps = 12
"""
STEPS = 12
CHECKPOINTS = pathlib.Path("checkpoints/run")
SAVED = re.compile(r"^saved \S*step-(\d+)$", re.MULTILINE)
RESUMED = re.compile(r"^resumed from \S*step-(\d+)", re.MULTILINE)


class Folder:
    """Where one run lives: a config, data, and what it writes."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        (path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        (path / "run.toml").write_text(CONFIG)

    def start(self, *arguments, **options):
        self.out, self.log = self.path / "out", self.path / "log"
        with open(self.out, "w") as out, open(self.log, "w") as log:
            return subprocess.Popen([TOOLS / "l2l-train", "run.toml", *arguments], cwd=self.path, stdout=out, stderr=log,
                                    **options)

    def run(self, *arguments, **options):
        """Exit status, standard output, messages."""
        status = self.start(*arguments, **options).wait(timeout=120)
        return status, self.out.read_text(), self.log.read_text()

    def names(self):
        try:  # the run makes the directory, removes it again where it only looks, and makes it for good
            return sorted(name for name in os.listdir(self.path / CHECKPOINTS) if name != ".lock")
        except FileNotFoundError:
            return []

    def files(self, checkpoint):
        return {file.name: file.read_bytes() for file in (self.path / CHECKPOINTS / checkpoint).iterdir()}


class Kill(unittest.TestCase):
    """SIGKILL at a random moment, again and again until a run is through; then the next run."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.random = random.Random(ARGUMENTS.seed)
        self.kills = self.in_save = self.in_start = self.resumes = self.runs = 0

    def tearDown(self):
        self.folder.cleanup()

    def whole_run(self):
        folder = Folder(self.path / "whole")
        begin = time.monotonic()
        status, out, messages = folder.run()
        self.duration = time.monotonic() - begin
        self.assertEqual(status, 0, messages)
        self.weights_hash = json.loads(out)["weights_hash"]
        self.names = folder.names()
        self.final = folder.files(self.names[-1])

    def wait_for_save(self, folder, process):
        """Until one is being written, after up to two others."""
        others, seen = self.random.randrange(3), set()
        while process.poll() is None and len(seen) <= others:
            seen |= {name for name in folder.names() if name.startswith(".step-")}
        time.sleep(self.random.expovariate(1 / 0.001))

    def kill_at_random(self, folder, process):
        """Half of the kills in the middle of a save, a quarter while it starts, the others anywhere."""
        kind = self.random.randrange(4)
        if kind < 2:
            self.wait_for_save(folder, process)
        else:
            time.sleep(self.random.uniform(0, 0.03 if kind == 2 else self.duration))
        process.kill()
        process.wait()

    def attempt(self, folder, committed):
        """One process, killed or not. Returns its exit status and the last step that must not be lost from now on."""
        there = any(name.startswith("step-") for name in folder.names())
        self.assertTrue(there or committed == 0, f"step {committed} is lost: {folder.names()}")
        process = folder.start(*(["--resume", CHECKPOINTS] if there else []))
        if self.kills < ARGUMENTS.kills:
            self.kill_at_random(folder, process)
        status, messages = process.wait(), folder.log.read_text()
        resumed = [int(step) for step in RESUMED.findall(messages)]
        saved = [int(step) for step in SAVED.findall(messages)]
        self.assertIn(status, (0, -signal.SIGKILL), messages)
        self.assertNotIn("lost", messages)
        self.assertGreaterEqual(min(resumed, default=committed), committed, messages)
        if status != 0:
            self.kills += 1
            self.in_save += any(name.startswith(".step-") or name.endswith(".old") for name in folder.names())
            self.in_start += not resumed and not saved
        self.resumes += len(resumed)
        return status, max([committed, *resumed, *saved])

    def killed_run(self, folder):
        status, committed = self.attempt(folder, 0)
        while status != 0:
            status, committed = self.attempt(folder, committed)
        self.assertEqual(json.loads(folder.out.read_text())["weights_hash"], self.weights_hash)

    def test_final_bytes_equal_those_of_the_uninterrupted_run(self):
        self.whole_run()
        begin = time.monotonic()
        while self.kills < ARGUMENTS.kills:
            folder = Folder(self.path / "killed")
            self.killed_run(folder)
            self.runs += 1
            self.assertEqual(folder.names(), self.names)  # no rubbish either
            self.assertEqual(folder.files(self.names[-1]), self.final)
            shutil.rmtree(folder.path)
        print(f"{self.kills} kills in {self.runs} runs: {self.in_save} in a save, {self.in_start} before the first report; "
              f"{self.resumes} resumes, no step lost; {time.monotonic() - begin:.0f} s")
        self.assertGreater(self.in_save, self.kills // 8)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.run_folder = Folder(pathlib.Path(self.folder.name) / "run")

    def tearDown(self):
        self.folder.cleanup()

    def test_a_save_that_fails_ends_the_run_and_leaves_the_checkpoint_before(self):
        status, out, messages = self.run_folder.run()
        self.assertEqual(status, 0, messages)
        whole = json.loads(out)
        before = Folder(pathlib.Path(self.folder.name) / "limited")
        self.assertEqual(before.run("--steps", "5")[0], 0)
        good = before.files("step-00000005")
        # A step takes long enough for the disk to become full in it.
        process = before.start("--resume", CHECKPOINTS, "--set", "transfer.link_bandwidth=20000")
        while f" {process.pid}\n" not in (before.path / CHECKPOINTS / ".lock").read_text() and process.poll() is None:
            time.sleep(0.001)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))
        self.assertEqual((process.wait(timeout=120), before.out.read_text()), (1, ""))
        self.assertIn("optimizer.safetensors: cannot be written: File too large", before.log.read_text())
        self.assertEqual(before.names(), ["step-00000004", "step-00000005"])
        self.assertEqual(before.files("step-00000005"), good)
        status, out, messages = before.run("--resume", CHECKPOINTS)
        self.assertEqual(status, 0, messages)
        self.assertEqual(json.loads(out)["weights_hash"], whole["weights_hash"])

    @unittest.skipUnless(pathlib.Path("/dev/full").exists(), "no /dev/full")
    def test_metrics_that_cannot_be_written_do_not_lose_the_run(self):
        status, out, messages = self.run_folder.run("--metrics", "/dev/full", "--set", "checkpoint.every=0")
        self.assertEqual((status, out), (1, ""), messages)
        self.assertIn("--metrics /dev/full: cannot be written: No space left on device", messages)
        self.assertIn("step-00000001: continue with --resume", messages)
        self.assertEqual(self.run_folder.names(), ["step-00000001"])
        status, out, messages = self.run_folder.run("--resume", CHECKPOINTS)
        self.assertEqual((status, json.loads(out)["steps"]), (0, STEPS), messages)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    ARGUMENTS, rest = parser.parse_known_args()
    TOOLS = ARGUMENTS.tools.resolve()
    unittest.main(argv=sys.argv[:1] + rest)
