#!/usr/bin/env python3
"""The arena planner on public allocation problems, against limits: footprint, seconds and memory of the process.

    planner_check.py FOLDER_OF_TOOLS DATA_FOLDER [--threads N] [--only TEXT] [--solver NAME] [--seconds S]
                     [--deadlines | --large]

One row per problem; exit status 1 when a limit is missed. Files that are not in DATA_FOLDER are named. With --deadlines,
the footprint after 0.1, 0.3, 1, 3 and 10 seconds of each solver alone and of the portfolio on three hard problems. With
--large, the footprint after 0.3 to 30 seconds of problems that are made of iopddl_S_1: repeated in time with random
shifts, random buffers left out, until there are as many as wanted.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

# Largest footprint over the bound, what the best public allocator reaches (tools and times: README.md of the data), most
# seconds of wall clock with reading, and most MiB of the process. "below": it must be smaller, not as small.
LIMITS = [
    *((f"minimalloc_{name}", 1.0, "1.000", 2, 2048) for name in "ACEFGI"),
    ("somas_resnet50", 1.0, "1.000", 10, 2048),
    ("somas_tiny_bert", 1.0, "1.000", 10, 2048),
    ("somas_bert_large", "below 4310290109 bytes", "LB + 11,708 B", 10, 2048),
    ("somas_pangu_13B", 1.0, "1.000", 10, 2048),
    ("iopddl_S_1", "below 1.0139", "1.0139", 10, 2048),
    ("pinwheel_n65", 1.0, "1.000", 10, 2048),
    ("pinwheel_n257", 1.25, "1.250", 10, 2048),
    ("tiling_n512_opt1048576", 1.0, "1.000", 10, 2048),
    ("streams_ctiling_n128_t2_s16_opt1048576", 1.0, "1.000", 10, 2048),
    ("streams_ctiling_n512_t4_s64_opt1048576", 1.0, "1.000", 10, 2048),
    ("streams_sync_barrier_n256_t4", 1.0002, "1.0002", 10, 2048),
    ("streams_sync_dense_n256_t4", 1.018, "1.018", 10, 2048),
    ("streams_sync_fork_join_n256_t4", 1.0, "1.000", 10, 2048),
    ("streams_sync_groups_n256_t4", 1.036, "1.036", 10, 2048),
    ("streams_sync_ring_n256_t4", 1.0001, "1.0001", 10, 2048),
    ("streams_sync_barrier_n2048_t8", "below 1.117", "1.117", 10, 2048),
    ("streams_sync_dense_n2048_t8", "below 1.103", "1.103", 10, 2048),
    ("streams_sync_ring_n2048_t8", "below 1.136", "1.136", 10, 2048),
    ("streams_sync_pairs_n2048_t8", "below 1.095", "1.095", 10, 2048),
]
SOLVERS = ("greedy", "exact", "local", "portfolio")
HARD = ("pinwheel_n257", "somas_bert_large", "streams_sync_dense_n2048_t8")
DEADLINES = (0.1, 0.3, 1, 3, 10)
LARGE = ((62_185, 1), (120_000, 5), (200_000, 2))  # buffers, seed
LARGE_DEADLINES = (0.3, 1, 3, 8, 30)


def plan(tools, file, options):
    """The JSON of l2l-plan, wall seconds and peak MiB of its process; the plan is validated by l2l-plan itself."""
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen([tools / "l2l-plan", "--problem", file, *options], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"l2l-plan --problem {file} failed with status {process.returncode}")
        out.seek(0)
        return json.load(out), seconds, usage.ru_maxrss / 1024


def kept(limit, result):
    if not isinstance(limit, str):
        return result["ratio"] <= limit + 5e-5  # limits have four digits
    words = limit.split()
    return result["footprint"] < int(words[1]) if len(words) == 3 else result["ratio"] < float(words[1])


def check(arguments, options):
    print("| problem | buffers | bound | footprint | ratio | best public | seconds | MiB | solver |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed = []
    for name, limit, public, most_seconds, most_mib in LIMITS:
        file = arguments.data / f"{name}.csv"
        if arguments.only not in name:
            continue
        if not file.exists():
            missed.append(f"{name}: not in {arguments.data}")
            continue
        result, seconds, mib = plan(arguments.tools, file, options)
        print(f"| {name} | {result['buffers']} | {result['bound']} | {result['footprint']} | {result['ratio']:.6f} | {public} "
              f"| {seconds:.2f} | {mib:.0f} | {result['solver']} |", flush=True)
        if limit == 1.0 and result["footprint"] != result["bound"] or not kept(limit, result):
            missed.append(f"{name}: footprint {result['ratio']:.6f} of the bound; limit: {limit}")
        if seconds > most_seconds:
            missed.append(f"{name}: {seconds:.2f} s; limit: {most_seconds} s")
        if mib > most_mib:
            missed.append(f"{name}: {mib:.0f} MiB; limit: {most_mib} MiB")
    for line in missed:
        print(line)
    return 1 if missed else 0


def after(result, seconds):
    """The footprint over the bound of the best plan that was there then; the curve counts from the end of reading."""
    steps = [step["footprint"] for step in result["curve"] if step["seconds"] <= seconds]
    return f"{steps[-1] / result['bound']:.6f}" if steps else "none yet"


def deadlines(arguments, options):
    print("| problem | solver |" + "".join(f" {seconds} s |" for seconds in DEADLINES))
    print("|---|---|" + "---|" * len(DEADLINES))
    for name in HARD:
        for solver in SOLVERS:
            result, _, _ = plan(arguments.tools, arguments.data / f"{name}.csv",
                                [*options, "--solver", solver, "--seconds", str(DEADLINES[-1])])
            print(f"| {name} | {solver} |" + "".join(f" {after(result, seconds)} |" for seconds in DEADLINES), flush=True)
    return 0


def write_large(file, source, count, seed):
    numbers = random.Random(seed)
    with source.open() as text:
        buffers = [tuple(map(int, row)) for row in list(csv.reader(text))[1:]]
    span = max(upper for _, _, upper, _ in buffers)
    rows, shift = [], 0
    while len(rows) < count:
        share = numbers.uniform(0.75, 0.95)
        rows += [(lower + shift, upper + shift, size) for _, lower, upper, size in buffers if numbers.random() < share]
        shift += int(span * numbers.uniform(0.2, 0.6))
    lines = (f"{number},{lower},{upper},{size}" for number, (lower, upper, size) in enumerate(rows[:count]))
    file.write_text("\n".join(["id,lower,upper,size", *lines]) + "\n")


def large(arguments, options):
    print("| buffers | seed | bound |" + "".join(f" {seconds} s |" for seconds in LARGE_DEADLINES) + " MiB |")
    print("|---|---|---|" + "---|" * len(LARGE_DEADLINES) + "---|")
    with tempfile.TemporaryDirectory() as folder:
        for count, seed in LARGE:
            file = pathlib.Path(folder) / "large.csv"
            write_large(file, arguments.data / "iopddl_S_1.csv", count, seed)
            result, _, mib = plan(arguments.tools, file, [*options, "--seconds", str(LARGE_DEADLINES[-1])])
            print(f"| {count} | {seed} | {result['bound']} |"
                  + "".join(f" {after(result, seconds)} |" for seconds in LARGE_DEADLINES) + f" {mib:.0f} |", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only", default="", help="problems whose names contain this")
    parser.add_argument("--solver", choices=SOLVERS)
    parser.add_argument("--seconds")
    parser.add_argument("--deadlines", action="store_true")
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    options = ["--threads", arguments.threads]
    for name in ("solver", "seconds"):
        if getattr(arguments, name):
            options += [f"--{name}", getattr(arguments, name)]
    return (large if arguments.large else deadlines if arguments.deadlines else check)(arguments, options)


if __name__ == "__main__":
    sys.exit(main())
