#!/usr/bin/env python3
"""A long run of a tiny model that is disturbed at random, and must end with the weights of one that nobody disturbed.

    soak.py BUILD/tools [--steps N] [--minutes M] [--seed S] [--every SECONDS]

Disturbances, one every so many seconds on average: TERM, HUP, XCPU and KILL (the run is then resumed), USR1 (save), USR2, STOP and
CONT, a disk that is full (a limit on file sizes, until a save has failed), a limit on open files, and, where libfaketime is
installed, jumps of the clock. Memory, descriptors and threads of both runs are sampled every second. It ends after N
steps or M minutes, and is then held against the checkpoint of the same step that the other run, which goes beside it in one
process, has saved. Prints a summary as JSON; exit status 1 when weights differ, a process ended as it should not, or memory,
descriptors or threads grew: of a disturbed process after its first minute, of the other one after the first half of the time.
"""
import argparse
import glob
import json
import os
import pathlib
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
[model]
layers = 2
hidden = 16
heads = 2
sequence = 16
dropout = 0.1
[data]
train = ["text"]
validation = ["text"]
[batch]
micro_batch = 1
micro_batches = 2
[optimizer]
learning_rate = 1e-4
clip = "global"
[device]
kind = "host"
threads = 1
[eps]
threads = 1
[checkpoint]
every = {every}
minutes = 0
keep = 3
[run]
steps = {steps}
validate_every = {every}
"""
CHECKPOINTS = "checkpoints/run"
WARM_UP = 60  # seconds of a process before its memory may no longer grow
SLACK = {"resident_kib": 512, "descriptors": 1, "threads": 0}  # between the first minute, which has saves, and any later one


def sample(pid):
    """Memory, descriptors and threads of a process; nothing when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        return {"resident_kib": int(fields["VmRSS"].split()[0]), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "threads": int(fields["Threads"])}
    except (OSError, KeyError, ValueError):
        return None


class Clock:
    """The wall clock of the run, by libfaketime; the real one where that is not installed."""

    def __init__(self, folder):
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        self.file = folder / "clock"
        self.environment = {}
        if libraries:
            self.jump(0)
            self.environment = {"LD_PRELOAD": libraries[0], "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1",
                                "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"}

    def jump(self, seconds):
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{seconds:+d}s")
        beside.rename(self.file)


class Soak:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.random = random.Random(arguments.seed)
        self.clock = Clock(folder)
        self.counts, self.lives, self.faults = {}, [], []
        self.begin = time.monotonic()
        (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        self.every = min(2000, max(1, arguments.steps // 500))  # steps between saves: several a minute
        (folder / "run.toml").write_text(CONFIG.format(steps=arguments.steps, every=self.every))

    def command(self, *more):
        return [self.arguments.tools / "l2l-train", "run.toml", *more]

    def start_whole(self):
        """A run that nobody disturbs, which keeps all of its checkpoints."""
        command = self.command("--quiet", "--set", "checkpoint.directory=whole", "--set", "checkpoint.keep=1000000")
        self.whole_samples = []
        with open(self.folder / "whole.log", "w") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=log)

    def saved_tensors(self, directory, step):
        """Hashes of a checkpoint's tensors, moments included; nothing where there is none yet."""
        path = self.folder / directory / f"step-{step:08}" / "manifest.json"
        return json.loads(path.read_text())["tensors"] if path.exists() else None

    def reached(self):
        return max((int(path.parent.name[5:]) for path in self.folder.glob(CHECKPOINTS + "/step-*/manifest.json")), default=0)

    def start(self):
        resume = ["--resume", CHECKPOINTS] if list(self.folder.glob(CHECKPOINTS + "/step-*/manifest.json")) else []
        self.log = open(self.folder / "log", "w+")
        self.expected = {0}  # exit statuses
        self.process = subprocess.Popen(self.command(*resume), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=self.log,
                                        env={**os.environ, **self.clock.environment})
        self.samples = []

    def over(self):
        return time.monotonic() - self.begin > 60 * self.arguments.minutes

    def limit(self, what, value):
        resource.prlimit(self.process.pid, what, (value, resource.prlimit(self.process.pid, what)[1]))

    def disturb(self):
        ways = {"TERM": 3, "HUP": 1, "XCPU": 1, "KILL": 3, "USR1": 6, "USR2": 3, "STOP": 6, "full disk": 1, "few files": 1, "clock": 6}
        way = self.random.choices(list(ways), list(ways.values()))[0]
        if way == "clock" and not self.clock.environment:
            way = "USR1"
        self.counts[way] = self.counts.get(way, 0) + 1
        if way == "clock":
            self.clock.jump(self.random.choice([-1, 1]) * self.random.choice([1, 60, 3600, 86400, 86400 * 365]))
        elif way == "full disk":
            self.expected.add(1)
            self.limit(resource.RLIMIT_FSIZE, 20_000)
        elif way == "few files":  # none beyond those that are open
            self.expected.add(1)
            self.limit(resource.RLIMIT_NOFILE, len(os.listdir(f"/proc/{self.process.pid}/fd")))
        elif way == "STOP":
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(self.random.expovariate(1))
            self.process.send_signal(signal.SIGCONT)
        else:
            if way == "KILL":
                self.expected = {-signal.SIGKILL}
            self.process.send_signal(getattr(signal, "SIG" + way))

    def live(self):
        """One process, to its end."""
        self.start()
        born = time.monotonic()
        wait = lambda: self.random.expovariate(1 / self.arguments.every)
        next_one = born + 1 + wait()
        while self.process.poll() is None:
            time.sleep(min(1, max(0.01, next_one - time.monotonic())))
            if seen := sample(self.process.pid):
                self.samples.append((time.monotonic() - born, seen))
            if self.whole.poll() is None and (seen := sample(self.whole.pid)):
                self.whole_samples.append((time.monotonic() - self.begin, seen))
            if self.over():
                self.process.terminate()
                self.process.wait(300)
            elif time.monotonic() >= next_one:
                try:
                    self.disturb()
                except (ProcessLookupError, FileNotFoundError):
                    pass  # it has just ended
                next_one = time.monotonic() + wait()
        status = self.process.wait()
        self.log.seek(0)
        messages = self.log.read()
        if status not in self.expected:
            self.faults.append(f"exit status {status}, expected {sorted(self.expected)}: {messages[-600:]}")
        if "lost" in messages or "trying an older" in messages:
            self.faults.append("a checkpoint was lost: " + messages[-600:])
        self.lives.append({"seconds": round(time.monotonic() - born), "status": status, **self.growth(self.samples, WARM_UP)})

    def growth(self, samples, warm_up):
        """The most that each figure was before `warm_up` seconds and afterwards."""
        result = {}
        for name, slack in SLACK.items():
            early = [seen[name] for age, seen in samples if 2 < age < warm_up]
            late = [seen[name] for age, seen in samples if age >= warm_up]
            if not early or not late:
                continue
            result[name] = [max(early), max(late)]
            if max(late) > max(early) + slack:
                self.faults.append(f"{name} grew from {max(early)} to {max(late)} in a process of {samples[-1][0]:.0f} s")
        return result

    def align(self):
        """Goes on, undisturbed, to the next step that both runs save; whether their tensors are the same there."""
        step = -(-self.reached() // self.every) * self.every
        subprocess.run(self.command("--quiet", "--resume", CHECKPOINTS, "--steps", str(step)), cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        while self.whole.poll() is None and not self.saved_tensors("whole", step):
            time.sleep(1)
        self.whole.kill()
        self.whole.wait()
        return step, self.saved_tensors("whole", step) == self.saved_tensors(CHECKPOINTS, step)

    def run(self):
        self.whole = self.start_whole()
        while self.reached() < self.arguments.steps and not self.over() and len(self.faults) < 20:
            self.live()
        undisturbed = self.growth(self.whole_samples, (time.monotonic() - self.begin) / 2)
        step, same = self.align()
        long = [life for life in self.lives if "resident_kib" in life]
        print(json.dumps({"steps": step, "seconds": round(time.monotonic() - self.begin), "same_weights": same,
                          "processes": len(self.lives), "disturbances": dict(sorted(self.counts.items())),
                          "longest_process_seconds": max(life["seconds"] for life in self.lives),
                          "median_process_seconds": statistics.median(life["seconds"] for life in self.lives),
                          "processes_over_a_minute": len(long),
                          **{name: [max(life[name][i] for life in long) for i in (0, 1)] for name in SLACK if long},
                          "undisturbed": undisturbed,
                          "faults": self.faults}, indent=1))
        return same and not self.faults


def main():
    parser = argparse.ArgumentParser(description="A long run, disturbed at random.")
    parser.add_argument("tools", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=120, help="end after so long")
    parser.add_argument("--every", type=float, default=20, help="seconds between disturbances, on average")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        return 0 if Soak(arguments, pathlib.Path(place)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
