#!/usr/bin/env python3
"""The memory contract of the host against the measured peak of the process, from small models to large ones.

    tools/host_memory_check.py FOLDER_OF_THE_TOOLS [--largest 1000] [--rounds 3]

A line for each config (all blocks are recomputed unless it says otherwise): what the contract says before step 1, the peak (the last of --rounds runs that differs most), and
the difference, which must be within 2% of the peak or 1 MiB. Exit status 1 where one is not. --largest: millions of parameters.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MIB = 2**20
BASE = """
[data]
train = ["text"]
validation = ["text"]
[precision]
compute = "fp32"
[recompute]
policy = "full"
[checkpoint]
directory = "saved"
[run]
validate_every = 4
steps = 8
"""
# (layers, hidden, heads, sequence, microbatches of sequences, further assignments)
SMALL = ((2, 64, 2, 32, 2, 2), (2, 128, 4, 64, 2, 4), (6, 256, 4, 128, 2, 2))
DEEP = ((100, 32, 2, 16, 2, 2), (1000, 32, 2, 16, 2, 2))
MEDIUM = ((12, 512, 8, 128, 2, 2), (24, 1024, 16, 128, 2, 1))
LARGE = ((48, 1280, 20, 128, 2, 1),)
VARIANTS = ((), ('precision.compute="bf16"',), ('transfer.stash="host"', 'recompute.policy="none"'), ('checkpoint.every=2',),
            ('precision.compute="fp16"', 'optimizer.moments="int8"'))


def configs(largest):
    for shape in SMALL:
        for variant in VARIANTS:
            yield shape, variant
    for shape in DEEP + MEDIUM + (LARGE if largest >= 1000 else ()):
        for variant in VARIANTS[:2]:
            yield shape, variant


def run(tools, shape, variant):
    layers, hidden, heads, sequence, microbatches, micro_batch = shape
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 400)
        (path / "run.toml").write_text(
            f"[model]\nlayers={layers}\nhidden={hidden}\nheads={heads}\nsequence={sequence}\n"
            f"[batch]\nmicro_batches={microbatches}\nmicro_batch={micro_batch}\n" + BASE)
        command = [str(tools / "l2l-train"), "run.toml", "--quiet"] + [word for each in variant for word in ("--set", each)]
        done = subprocess.run(command, cwd=path, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{shape} {variant}: {done.stderr}")
        summary = json.loads(done.stdout)
        return summary["predicted_host_bytes"], summary["host_bytes"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--largest", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    wrong = 0
    print("| layers x hidden, variant | contract MiB | peak MiB | peak / contract |\n|---|---|---|---|")
    for shape, variant in configs(arguments.largest):
        runs = [run(arguments.tools.resolve(), shape, variant) for _ in range(arguments.rounds)]
        predicted, measured = max(runs, key=lambda each: abs(each[1] - each[0]))
        holds = abs(measured - predicted) <= max(0.02 * measured, MIB)
        wrong += not holds
        name = f"{shape[0]} x {shape[1]}" + "".join(", " + each.replace('"', "") for each in variant)
        print(f"| {name} | {predicted / MIB:.1f} | {measured / MIB:.1f} | {measured / predicted:.3f}{'' if holds else ' WRONG'} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
