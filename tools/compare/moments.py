#!/usr/bin/env python3
"""What smaller moments cost in accuracy: trains the same byte-level GPT with each format of the moments, and compares the
validation losses with those of fp32 moments.

  python3 tools/compare/moments.py build-release/tools [FILE...] [--moments fp32,bf16_first,bf16,int8] [--seeds 1,2,3]
      [--steps N] [--optimizer adamw|lamb] [--threads N] [--folder FOLDER] [--json]

FILE: text; the last tenth of each is held out. Default: the licences that every Debian and Ubuntu has, Apache-2.0 held out
(as in tools/quickstart.sh): 0.2 MB, which a run of 2,000 steps reads nine times; give a few megabytes for less.
How runs are made and compared: text_runs.py; finished ones are kept in FOLDER (default runs/moments). Exit status 1 when a run
failed.
"""
import argparse
import json

import text_runs

CONFIG = """
[model]
architecture = "gpt2"
layers = 4
hidden = 128
heads = 4
sequence = 128
dropout = 0.0
[data]
format = "text"
train = ["{data}/train/*"]
validation = ["{data}/validation/*"]
[batch]
micro_batch = 4
micro_batches = 2
[optimizer]
name = "{optimizer}"
learning_rate = {learning_rate}
betas = [0.9, 0.95]
weight_decay = 0.1
clip = "global"
max_norm = 1.0
{moments}
[schedule]
kind = "cosine"
warmup_steps = {warmup}
minimum = 1e-4
[precision]
compute = "bf16"
""" + text_runs.RUN


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    text_runs.add_arguments(parser, folder="runs/moments", steps=2000)
    parser.add_argument("--moments", default="fp32,bf16_first,bf16,int8")
    parser.add_argument("--optimizer", choices=("adamw", "lamb"), default="adamw")
    a = parser.parse_args()
    a.moments = a.moments.split(",")
    if a.moments[0] != "fp32":
        parser.error("--moments: begins with fp32, which the others are compared with")
    return a


def config_of(a, moments, seed):
    return CONFIG.format(
        data=(a.folder / "data").resolve(), optimizer=a.optimizer, threads=a.threads, steps=a.steps, seed=seed,
        learning_rate={"adamw": 1e-3, "lamb": 1e-2}[a.optimizer], warmup=a.steps // 20 + 1,
        moments="" if moments == "fp32" else f'moments = "{moments}"')


def main():
    a = arguments()
    runs = text_runs.run_all(a, a.moments, lambda moments, seed: f"{a.optimizer}-{moments}-{seed}",
                             lambda moments, seed: config_of(a, moments, seed))
    rows, seeds = text_runs.compare(runs), text_runs.seeds_of(a)
    if a.json:
        print(json.dumps({"steps": a.steps, "seeds": seeds, "optimizer": a.optimizer, "rows": rows,
                          "curves": text_runs.curves(runs)}))
    else:
        text_runs.show(f"{a.optimizer}, {a.steps} steps of 1,024 bytes, seeds {', '.join(map(str, seeds))}", "moments", rows)


if __name__ == "__main__":
    main()
