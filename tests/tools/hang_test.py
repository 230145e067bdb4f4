"""A thread of l2l-train that dies or hangs, at whatever moment, ends the run: exit status 1 and the thread's name on stderr,
within 10 s of what the limit says; what was saved before can be gone on from, and the end is that of a run in peace.

    hang_test.py FOLDER_OF_THE_TOOLS [--moments N] [--seed N]

Each thread in turn throws at its first moment and hangs at its second, as do the workers that draw the first weights; then
come N moments (default 4; half of them throw, half hang), spread evenly over all that a run has. Needs a build with fault
points; skips (77) without.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

CONFIG = """
[model]
layers = 2
hidden = 64  # such layers are copied by the threads of their streams
heads = 2
sequence = 16
[data]
train = ["text"]
[batch]
micro_batch = 2
micro_batches = 2
[device]
threads = 2
[eps]
threads = 2
[checkpoint]
directory = "saved"
every = 2
[run]
steps = 8
"""
LIMIT = 2.0  # seconds without progress
THREADS = ["eps updater", "compute", "h2d weights", "weight feeder", "d2h gradients", "gradient sender", "gradient completion", "checkpoint saver"]
NAMED = re.compile(r"thread \"?(relay|reader|weight feeder|gradient sender|gradient completion|eps|checkpoint saver|compute|h2d|d2h|device|host)[^\n]*")


def run(tools, folder, fault=None, resume=False):
    environment = dict(os.environ, L2L_HANG_SECONDS=str(LIMIT))
    environment.pop("L2L_FAULT_MOMENT", None)
    if fault:
        environment["L2L_FAULT_MOMENT"] = fault
    command = [str(tools / "l2l-train"), "run.toml", "--quiet"] + (["--resume", "saved"] if resume else [])
    begin = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done, time.monotonic() - begin


def prepare(folder):
    folder.mkdir()
    (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
    (folder / "run.toml").write_text(CONFIG)


def hash_of(done):
    return json.loads(done.stdout.splitlines()[-1])["weights_hash"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--moments", type=int, default=4)
    parser.add_argument("--last", type=int, default=0, help="the last moment; 0: found by trial")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    tools = arguments.tools.resolve()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as base:
        base = pathlib.Path(base)
        # The first run measures the device, which has moments of its own; the others find what it measured.
        os.environ["L2L_CALIBRATION"] = str(base / "calibration.json")
        prepare(base / "peace")
        peace, usual = run(tools, base / "peace")
        assert peace.returncode == 0, peace.stderr
        last = arguments.last
        if not last:  # the largest power of two at which a run still dies
            last = 1
            while True:
                folder = base / f"probe{last}"
                prepare(folder)
                if run(tools, folder, f"throw:{2 * last}")[0].returncode == 0:
                    break
                last *= 2
            if last == 1:
                print("no fault points in this build")
                return 77
        failures, slowest, names = [], 0.0, {}
        faults = [f"throw:1:{name}" for name in THREADS] + [f"hang:2:{name}" for name in THREADS]
        faults += ["throw:1", "hang:2"]  # the first moments are theirs
        faults += [f"{('throw', 'hang')[i % 2]}:{draw.randint(1, last)}" for i in range(arguments.moments)]
        for i, fault in enumerate(faults):
            folder = base / f"run{i}"
            prepare(folder)
            done, seconds = run(tools, folder, fault)
            slowest = max(slowest, seconds - usual)
            named = NAMED.search(done.stderr)
            if named:
                names[named.group(1)] = names.get(named.group(1), 0) + 1
            if done.returncode != 1 or not named or seconds > usual + LIMIT + 10:
                failures.append(f"{fault}: status {done.returncode} after {seconds:.1f} s: {done.stderr[-600:]}")
                continue
            if any((folder / "saved").glob("step-*")):
                again, _ = run(tools, folder, resume=True)
                if again.returncode != 0 or hash_of(again) != hash_of(peace):
                    failures.append(f"{fault}: resumed: status {again.returncode}: {again.stderr[-300:]}")
        print(f"{len(faults)} moments, of {last}, {len(failures)} failures; longest end {slowest:.1f} s after an "
              f"undisturbed run's time; named: {names}")
        print("\n".join(failures))
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
