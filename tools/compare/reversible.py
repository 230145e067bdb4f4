#!/usr/bin/env python3
"""What reversible blocks cost in accuracy: trains the quickstart's GPT without and with them, and compares the validation losses.

  python3 tools/compare/reversible.py build-release/tools [FILE...] [--reversible none,fixed,fixed-stored,float,float-stored]
      [--seeds 1,2,3] [--steps N] [--compute fp32|bf16] [--threads N] [--folder FOLDER] [--json]

"fixed" and "float" rebuild the inputs of blocks in the backward pass, "-stored" keeps them on the host (transfer.stash): the same
model either way, so each pair is also compared with itself, and it is said whether the weights are the same to the bit.
Beside the losses it prints tokens per second, device memory, and the largest drift of a step of the streams in floating point.
FILE: text; the last tenth of each is held out. Default: the licences, as in tools/quickstart.sh.
How runs are made and compared: text_runs.py; finished ones are kept in FOLDER (default runs/reversible). Exit status 1 when a
run failed.
"""
import argparse
import json
import statistics

import text_runs

# Of tools/quickstart.sh.
CONFIG = """
[model]
architecture = "gpt2"
layers = 8
hidden = 160
heads = 5
sequence = 128
dropout = 0.0
reversible = "{reversible}"
[data]
format = "text"
train = ["{data}/train/*"]
validation = ["{data}/validation/*"]
[batch]
micro_batch = 2
micro_batches = 2
[optimizer]
name = "adamw"
learning_rate = 1e-3
betas = [0.9, 0.95]
weight_decay = 0.1
clip = "global"
max_norm = 1.0
[schedule]
kind = "cosine"
warmup_steps = {warmup}
minimum = 1e-4
[precision]
compute = "{compute}"
[transfer]
stash = "{stash}"
""" + text_runs.RUN

STORED = "-stored"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    text_runs.add_arguments(parser, folder="runs/reversible", steps=3000)
    parser.add_argument("--reversible", default="none,fixed,fixed-stored,float,float-stored")
    parser.add_argument("--compute", choices=("fp32", "bf16"), default="fp32")
    a = parser.parse_args()
    a.reversible = a.reversible.split(",")
    if a.reversible[0] != "none":
        parser.error("--reversible: begins with none, which the others are compared with")
    return a


def config_of(a, reversible, seed):
    return CONFIG.format(data=(a.folder / "data").resolve(), reversible=reversible.removesuffix(STORED), compute=a.compute,
                         stash="host" if reversible.endswith(STORED) else "auto", threads=a.threads,
                         warmup=a.steps // 20 + 1, steps=a.steps, seed=seed)


def compare_pairs(runs):
    """{variant: rows}, of text_runs.compare(), of what was trained both with rebuilt and with stored inputs."""
    pairs = {}
    for name in runs:
        if name + STORED in runs:
            pairs[name] = text_runs.compare({variant: runs[variant] for variant in (name + STORED, name)})
            pairs[name][name]["same_weights"] = [run["weights_hash"] == runs[name + STORED][seed]["weights_hash"]
                                                 for seed, run in runs[name].items()]
    return pairs


def add_costs(rows, runs):
    for name, row in rows.items():
        results = list(runs[name].values())
        row["tokens_per_second"] = statistics.fmean(result["tokens_per_second"] for result in results)
        row["device_peak_bytes"] = results[0]["device_peak_bytes"]
        drifts = [result["drift"] for result in results if result["drift"] is not None]
        row["drift"] = max(drifts) if drifts else None


def show_costs(rows):
    for name, row in rows.items():
        drift = "" if row["drift"] is None else f", drift at most {row['drift']:.1e}"
        print(f"{name:12} {row['tokens_per_second']:8.0f} tokens/s, {row['device_peak_bytes'] / 2**20:.2f} MiB on the device{drift}")


def show_pairs(pairs):
    for name, rows in pairs.items():
        same = rows[name]["same_weights"]
        print()
        text_runs.show(f"{name}: inputs rebuilt less inputs stored, of the same seed", "reversible", rows)
        print(f"weights the same to the bit: {sum(same)} of {len(same)} seeds")


def main():
    a = arguments()
    runs = text_runs.run_all(a, a.reversible, lambda reversible, seed: f"{a.compute}-{reversible}-{seed}",
                             lambda reversible, seed: config_of(a, reversible, seed))
    rows, seeds = text_runs.compare(runs), text_runs.seeds_of(a)
    pairs = compare_pairs(runs)
    add_costs(rows, runs)
    if a.json:
        print(json.dumps({"steps": a.steps, "seeds": seeds, "compute": a.compute, "rows": rows, "pairs": pairs,
                          "curves": text_runs.curves(runs)}))
    else:
        text_runs.show(f"{a.compute}, {a.steps} steps of 512 bytes, seeds {', '.join(map(str, seeds))}", "reversible", rows)
        show_costs(rows)
        show_pairs(pairs)


if __name__ == "__main__":
    main()
