#!/usr/bin/env python3
"""Tokens per second of packed documents of mixed lengths, over those of documents that fill a sequence and of a stream; of
padded ones in microbatches of several lengths, over those of one.

    packing_speed.py FOLDER_OF_THE_TOOLS [--rounds N]

A small Llama on this machine's processors. All take turns; of each run the fastest step counts, of padded ones, whose steps
differ, all steps. Printed are the medians over the rounds of the ratios.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

from machine import print_header
from needs import tools_folder

CONFIG = """
[model]
architecture = "llama"
layers = 4
hidden = 256
heads = 4
vocabulary = 1000
sequence = 512
dropout = 0.0
[data]
format = "tokens"
[precision]
compute = "fp32"
[batch]
micro_batch = 4
micro_batches = 2
[checkpoint]
directory = "out"
[run]
steps = 9
"""


def write(path, lengths):
    ids, ends = [], []
    for length in lengths:
        ids += [random.randrange(1000) for _ in range(length)]
        ends.append(len(ids))
    path.write_bytes(struct.pack(f"<{len(ids)}H", *ids))
    pathlib.Path(f"{path}.json").write_text(json.dumps({"document_ends": ends}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print_header(arguments.tools / "l2l-train")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        (work / "run.toml").write_text(CONFIG)
        random.seed(2)
        mixed = []
        while sum(mixed) < 400_000:  # mean 145
            mixed.append(min(513, max(2, int(random.lognormvariate(4.6, 1.0)))))
        write(work / "mixed", mixed)
        write(work / "equal", [513] * (400_000 // 513))

        def step_times(data, samples, buckets=8):
            metrics = work / "metrics.jsonl"
            metrics.unlink(missing_ok=True)
            subprocess.run([str(arguments.tools / "l2l-train"), str(work / "run.toml"), "--quiet", "--set", f"data.train=['{work / data}']",
                            "--set", f"data.samples={samples}", "--set", f"data.buckets={buckets}", "--metrics", str(metrics)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work,
                           env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
            times = [json.loads(line)["step_ms"] for line in metrics.read_text().splitlines()[1:] if '"step_ms"' in line]
            print(f"{data} lengths, {samples}, {buckets} buckets: {min(times):.1f} ms", file=sys.stderr, flush=True)
            return times

        ratios = {"packed, mixed lengths, over documents that fill a sequence": [], "packed, mixed lengths, over a stream": [],
                  "padded, several lengths, over one": []}
        of_equal, of_stream, of_padded = ratios.values()
        for _ in range(arguments.rounds):
            packed = min(step_times("mixed", "packed"))
            of_equal.append(min(step_times("equal", "packed")) / packed)
            of_stream.append(min(step_times("equal", "stream")) / packed)
            of_padded.append(sum(step_times("mixed", "padded", 1)) / sum(step_times("mixed", "padded")))
        for name, values in ratios.items():
            print(f"{name}: {statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
