#!/usr/bin/env python3
"""Tokens per second of packed documents of mixed lengths, over those of documents that fill a sequence and of a stream.

    packing_speed.py FOLDER_OF_THE_TOOLS [--rounds N]

A small Llama on this machine's processors. The three take turns; of each run the fastest step counts, and printed are the
medians over the rounds of the ratios.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile

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
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        (work / "run.toml").write_text(CONFIG)
        random.seed(2)
        mixed = []
        while sum(mixed) < 400_000:  # mean 145
            mixed.append(min(513, max(2, int(random.lognormvariate(4.6, 1.0)))))
        write(work / "mixed", mixed)
        write(work / "equal", [513] * (400_000 // 513))

        def fastest_step(data, samples):
            metrics = work / "metrics.jsonl"
            metrics.unlink(missing_ok=True)
            subprocess.run([str(arguments.tools.resolve() / "l2l-train"), str(work / "run.toml"), "--quiet", "--set", f"data.train=['{work / data}']",
                            "--set", f"data.samples={samples}", "--metrics", str(metrics)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work,
                           env={**os.environ, "XDG_CACHE_HOME": str(work / "cache")})
            return min(json.loads(line)["step_ms"] for line in metrics.read_text().splitlines()[1:])

        ratios = {"documents that fill a sequence": [], "a stream": []}
        for _ in range(arguments.rounds):
            packed = fastest_step("mixed", "packed")
            ratios["documents that fill a sequence"].append(fastest_step("equal", "packed") / packed)
            ratios["a stream"].append(fastest_step("equal", "stream") / packed)
        for name, values in ratios.items():
            print(f"packed, mixed lengths, over {name}: {statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
