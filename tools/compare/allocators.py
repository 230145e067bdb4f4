#!/usr/bin/env python3
"""jemalloc against the C library's malloc(): the same l2l-train with the one and with the other, in turn.

    allocators.py FOLDER_OF_THE_TOOLS [--steps 100000] [--rounds 3] [--tokenize TOKENIZER FILE]

A tiny model makes many steps, with 50 saves and validations among them; larger ones make 12 steps. Of each run: the peak of the
process, the contract's, and what a step takes, as a median on the clock and in time of the cores. Of a long one also its
growth: the most that it held in the last tenth of its steps over the most from step 1,000 to the end of the first tenth; of
jemalloc's, the same of each role, between saves. With --tokenize, also l2l-tokenize of a text. Prints a line a run and the
medians; exit status 1 where both sides do not end with the same weights.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from machine import describe
from needs import tools_folder

MIB = 2**20
CONFIG = """
[model]
layers = {layers}
hidden = {hidden}
heads = 2
sequence = 16
dropout = 0.1
[data]
train = ["text"]
validation = ["text"]
[precision]
compute = "fp32"
[batch]
micro_batch = 1
micro_batches = 2
[optimizer]
learning_rate = 1e-4
[device]
kind = "host"
threads = 1
[eps]
threads = 1
[recompute]
policy = "full"
[checkpoint]
directory = "saved"
keep = 2
every = {every}
[run]
steps = {steps}
validate_every = {every}
"""
SETTLED = 1000  # steps after which memory may no longer grow
SIZES = ((2, 64), (6, 256), (4, 1024))
SHORT = 12  # steps


def other_libraries(tool):
    """What to load first, so that malloc() and operator new are those of the C and C++ libraries."""
    linked = subprocess.run(["ldd", tool], capture_output=True, text=True, check=True).stdout
    if "libjemalloc" not in linked:
        sys.exit(f"{tool}: is not linked with jemalloc (meson option jemalloc)")
    return " ".join(re.search(rf"{name}\S* => (\S+)", linked)[1] for name in (r"libstdc\+\+\.so", r"libc\.so"))


def resident(pid):
    """Nothing when the process has ended."""
    found = re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else None


def last_step(metrics):
    """That --metrics has written."""
    try:
        with open(metrics, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = [line for line in file.read().split(b"\n")[:-1] if line.startswith(b'{"step":')]
        return json.loads(lines[-1])["step"] if lines else 0
    except OSError:
        return 0


def follow(pid, metrics):
    """(step, resident memory) of a process, until it ends."""
    samples = []
    while held := resident(pid):
        samples.append((last_step(metrics), held))
        time.sleep(0.05)
    return samples


def growth(samples, steps):
    """Between the first tenth and the last; nothing of a short run."""
    early = [held for step, held in samples if SETTLED <= step <= steps / 10]
    late = [held for step, held in samples if step >= steps * 0.9]
    return max(late) - max(early) if early and late else None


def growth_of_roles(records):
    """From the save at a tenth of the way on."""
    first, last = (records[at]["allocator"]["roles"] for at in (len(records) // 10, -1))
    return {role: last[role]["allocated"] - first[role]["allocated"] for role in last}


def run(arguments, folder, preload, layers, hidden, steps):
    (folder / "run.toml").write_text(CONFIG.format(layers=layers, hidden=hidden, steps=steps, every=max(steps // 50, SHORT)))
    metrics = folder / "metrics"
    metrics.unlink(missing_ok=True)
    shutil.rmtree(folder / "saved", ignore_errors=True)
    command = [arguments.tools / "l2l-train", "run.toml", "--quiet", "--metrics", metrics]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, "LD_PRELOAD": preload})
    samples = follow(process.pid, metrics)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command}: status {process.returncode}")
    summary = json.loads(process.stdout.read().splitlines()[-1])
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    records = [line for line in lines if "allocator" in line]
    result = {"layers": layers, "hidden": hidden, "steps": steps, "allocator": "C library" if preload else summary["allocator"]["name"],
              "peak": summary["host_bytes"], "contract": summary["predicted_host_bytes"], "hash": summary["weights_hash"],
              "step_ms": statistics.median(line["step_ms"] for line in lines if "step_ms" in line),
              "core_ms": 1e3 * (usage.ru_utime + usage.ru_stime) / steps, "growth": growth(samples, steps)}
    if len(records) > 1:
        result["roles"] = growth_of_roles(records)
    print(json.dumps(result), flush=True)
    return result


def tokenize(arguments, folder, preload):
    tokenizer, text = arguments.tokenize
    command = [arguments.tools / "l2l-tokenize", tokenizer, text, "--output", folder / "shard"]
    process = subprocess.Popen(command, env={**os.environ, "LD_PRELOAD": preload}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command}: status {process.returncode}")
    return usage.ru_maxrss * 1024 / MIB, usage.ru_utime + usage.ru_stime


def show(machine, results):
    print(f"{machine}\n")
    print("| layers x hidden, steps | malloc() | peak MiB | peak / contract | growth KiB | ms a step | ms of the cores |\n|---|---|---|---|---|---|---|")
    cases = {}
    for result in results:
        cases.setdefault((result["layers"], result["hidden"], result["steps"], result["allocator"]), []).append(result)
    for (layers, hidden, steps, allocator), runs in cases.items():
        peak, contract, step_ms, core_ms = (statistics.median(each[name] for each in runs) for name in ("peak", "contract", "step_ms", "core_ms"))
        grown = [each["growth"] for each in runs if each["growth"] is not None]
        print(f"| {layers} x {hidden}, {steps:,} | {allocator} | {peak / MIB:.2f} | {peak / contract:.3f} | "
              f"{', '.join(f'{each / 1024:.0f}' for each in grown)} | {step_ms:.3f} | {core_ms:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenize", nargs=2, metavar=("TOKENIZER", "FILE"))
    arguments = parser.parse_args()
    machine = describe(arguments.tools / "l2l-train")
    other = other_libraries(arguments.tools / "l2l-train")
    results, same = [], True
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 50)
        for layers, hidden, steps in [(2, 16, arguments.steps)] + [(*size, SHORT) for size in SIZES]:
            for _ in range(arguments.rounds):
                both = [run(arguments, folder, preload, layers, hidden, steps) for preload in ("", other)]
                same = same and both[0]["hash"] == both[1]["hash"]
                results += both
        show(machine, results)
        if arguments.tokenize:
            both = [[tokenize(arguments, folder, preload) for preload in ("", other)] for _ in range(arguments.rounds)]
            for side, name in enumerate(("jemalloc", "C library")):
                peak, seconds = (statistics.median(each[side][i] for each in both) for i in range(2))
                print(f"l2l-tokenize with {name}: peak {peak:.1f} MiB, {seconds:.2f} s of the cores")
    print("same weights" if same else "WEIGHTS DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
