#!/usr/bin/env python3
"""The arena planner beside omnimalloc's allocators (PyPI) on the same allocation problems.

    omnimalloc_planner.py FOLDER_OF_TOOLS [FILE.csv ...] [--generate FOLDER] [--seconds S] [--threads N]

A row per file: the footprint over the bound of l2l-plan after S seconds (8 by default), and of the best of omnimalloc's
allocators, each of which has S seconds where it takes a limit, with its name and its time. Offsets of both are validated
by their own library. Files are those that l2l-plan --problem reads: CSV of id, lower, upper, size, with vector clocks as
"a:b:c". --generate writes such files with omnimalloc's own generator, one for each way in which its threads synchronize and
each of GENERATED, and adds a row for each.
"""
import argparse
import csv
import itertools
import json
import pathlib
import subprocess
import time

from machine import print_header
from needs import needs, tools_folder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("files", type=pathlib.Path, nargs="*")
    parser.add_argument("--generate", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--threads", type=int, default=2)
    ARGUMENTS = parser.parse_args()
    needs("omnimalloc")

import omnimalloc  # noqa: E402
from omnimalloc import allocators as theirs  # noqa: E402
from omnimalloc.benchmark.sources import sync_patterns  # noqa: E402

GENERATED = ((512, 4), (2048, 8))  # buffers, streams
SEED = 1


def clock(text):
    entries = [int(entry) for entry in text.split(":")]
    return entries[0] if len(entries) == 1 else entries


def read(file):
    with file.open() as text:
        return [omnimalloc.Allocation(int(row["id"]), int(row["size"]), clock(row["lower"]), clock(row["upper"]))
                for row in csv.DictReader(text)]


def generate(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for buffers, streams in GENERATED:
        for pattern in sync_patterns.SYNC_PATTERNS:
            source = sync_patterns.SyncPatternSource(buffers, streams, pattern, seed=SEED)
            file = folder / f"{pattern}_n{buffers}_t{streams}.csv"
            with file.open("w") as text:
                print("id,lower,upper,size", file=text)
                for each in source.get_allocations():
                    lower, upper = (":".join(map(str, when)) for when in (each.start, each.end))
                    print(each.id, lower, upper, each.size, sep=",", file=text)
            yield file


def rivals(seconds, on_streams):
    yield "omni", theirs.OmniAllocator()
    yield "greedy_by_all", theirs.GreedyByAllAllocator()
    yield "tabu_search", theirs.TabuSearchAllocator(timeout=seconds, max_iterations=10**9)
    if not on_streams:
        yield "supermalloc", theirs.SupermallocAllocator(timeout=seconds)


def best_rival(file, seconds):
    buffers, best = read(file), None
    for name, allocator in rivals(seconds, on_streams=":" in file.read_text()):
        start = time.monotonic()
        placed = omnimalloc.allocate(buffers, allocator, validate=True)
        took = time.monotonic() - start
        footprint = max(each.offset + each.size for each in placed)
        if best is None or footprint < best[0]:
            best = (footprint, name, took)
    return best


def ours(tools, file, seconds, threads):
    output = subprocess.run([tools / "l2l-plan", "--problem", file, "--threads", str(threads), "--seconds", str(seconds)],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def main(arguments):
    omnimalloc.set_max_threads(arguments.threads)
    print_header(arguments.tools / "l2l-plan", "omnimalloc")
    print("| problem | buffers | l2l-plan | seconds | omnimalloc | seconds | its best |")
    print("|---|---|---|---|---|---|---|")
    generated = generate(arguments.generate) if arguments.generate else ()
    for file in itertools.chain(arguments.files, generated):
        result = ours(arguments.tools, file, arguments.seconds, arguments.threads)
        footprint, name, took = best_rival(file, arguments.seconds)
        print(f"| {file.stem} | {result['buffers']} | {result['ratio']:.6f} | {result['seconds']:.1f} "
              f"| {footprint / result['bound']:.6f} | {took:.1f} | {name} |", flush=True)


if __name__ == "__main__":
    main(ARGUMENTS)
