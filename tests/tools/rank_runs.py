"""What tests of several processes under mpirun have in common."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from mpi_surroundings import SURROUNDINGS  # noqa: E402

# "host", or "cuda": all ranks share the first GPU then.
DEVICE = os.environ.get("L2L_TEST_DEVICE", "host")

CONFIG = f"""
[model]
layers = 3
hidden = 32
heads = 2
sequence = 16
dropout = 0.1
[data]
train = ["text"]
[precision]
compute = "fp32"
[batch]
micro_batch = 2
micro_batches = 24
[optimizer]
learning_rate = 1e-2
[device]
kind = "{DEVICE}"
threads = 1
[eps]
threads = 1
[run]
steps = 6
"""


class RankRuns(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.path = pathlib.Path(place.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 200)
        (self.path / "run.toml").write_text(CONFIG)

    def command(self, ranks, *arguments, settings=(), launcher=()):
        """`launcher`: further arguments of mpirun."""
        launcher = [] if ranks == 1 else [ARGUMENTS.mpirun, "-n", str(ranks), *launcher]
        named = [word for setting in settings for word in ("--set", setting)]
        return [*launcher, ARGUMENTS.tools / "l2l-train", "run.toml", *named, *arguments]

    def environment(self):
        return {**os.environ, **SURROUNDINGS}

    def run_ranks(self, ranks, *arguments, settings=(), expected=0):
        """The last line of rank 0, and all messages."""
        done = subprocess.run(self.command(ranks, *arguments, settings=settings), cwd=self.path, capture_output=True, text=True,
                              timeout=300, env=self.environment(), check=False)
        self.assertEqual(done.returncode, expected, done.stderr)
        lines = done.stdout.splitlines()
        self.assertLessEqual(len(lines), 1, done.stdout)
        return (json.loads(lines[0]) if lines else None), done.stderr

    def on_rank(self, ranks, rank, there="", elsewhere="", arguments=(), launcher=()):
        """l2l-train with other words, or variables before it, on one rank. The process that ran."""
        line = f"{ARGUMENTS.tools / 'l2l-train'} run.toml --quiet " + " ".join(arguments)
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then {there.format(line=line)}; else {(elsewhere or "exec {line}").format(line=line)}; fi'
        return subprocess.run([ARGUMENTS.mpirun, "-n", str(ranks), *launcher, "bash", "-c", script], cwd=self.path, capture_output=True, text=True,
                              timeout=120, env=self.environment(), check=False)

    def processes(self):
        """Of l2l-train that run in this folder, by rank."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or os.readlink(entry / "cwd") != str(self.path):
                    continue
                words = (entry / "environ").read_bytes().split(b"\0")
                rank = [word for word in words if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
                if rank and os.readlink(entry / "exe").endswith("l2l-train"):
                    found[int(rank[0].split(b"=")[1])] = int(entry.name)
            except OSError:
                continue
        return found

    def start(self, ranks, *arguments, settings=(), launcher=()):
        self.log = open(self.path / "log", "w")
        self.addCleanup(self.log.close)
        run = subprocess.Popen(self.command(ranks, *arguments, settings=settings, launcher=launcher), cwd=self.path, stdout=subprocess.PIPE,
                               stderr=self.log, text=True, env=self.environment())
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.kill)
        return run

    def messages(self):
        return (self.path / "log").read_text()

    def wait_for(self, what, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def wait_for_steps(self):
        self.wait_for("the first steps", lambda: re.search(r"^step \d", self.messages(), re.MULTILINE))


def main(*options, paths=()):
    """Runs the tests of the program, called with FOLDER_OF_THE_TOOLS MPIRUN and `paths`. `options`: names of numbers, with their
    defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("mpirun")
    for name in paths:
        parser.add_argument(name, type=lambda text: pathlib.Path(text).resolve())
    for name, default in options:
        parser.add_argument(name, type=int, default=default)
    chosen, rest = parser.parse_known_args(namespace=ARGUMENTS)
    chosen.tools = chosen.tools.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


ARGUMENTS = argparse.Namespace()
