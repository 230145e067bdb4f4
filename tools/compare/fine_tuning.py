#!/usr/bin/env python3
"""Table 7 of the L2L paper on real sentences: a pretrained encoder fine-tuned by the relay, by resident execution and by
PyTorch. For each seed all begin with the same head and see the same sentences in the same order, with the same learning
rates and no dropout.

    fine_tuning.py BUILD/tools MODEL_DIRECTORY REVIEWS_FOLDER [--seeds N] [--first SEED] [--steps N] [--precision fp32,bf16] [--task classes,numbers]

Prints a JSON line for each run and, at the end, the rows of the table. Needs PyTorch, transformers, scikit-learn and scipy.
Exit status 1 when resident execution gives other bits than the relay, or the mean difference to PyTorch is above one point.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from needs import needs, tools_folder


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("reviews", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--task", default="classes,numbers")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = parse()
    needs("torch", "transformers", "scipy", "sklearn")

import torch  # noqa: E402
import transformers  # noqa: E402
from scipy.stats import pearsonr  # noqa: E402
from sklearn.metrics import accuracy_score  # noqa: E402

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

CONFIG = """
[model]
pretrained = "{model}"
sequence = 64
dropout = 0.0
head = "{head}"
[data]
train = ["{train}"]
validation = ["{dev}"]
columns = ["sentence"]
label = "{label}"
samples = "padded"
order = "sequential"
[batch]
minibatch = 32
[optimizer]
learning_rate = 1e-4
[schedule]
kind = "linear"
warmup_steps = 10
[precision]
compute = "{precision}"
[device]
kind = "host"
execution = "{execution}"
[run]
steps = {steps}
seed = {seed}
[checkpoint]
directory = "{out}"
"""
TASKS = {"classes": ("classification", "label", "movies_{}.tsv", "accuracy"),
         "numbers": ("regression", "score", "movies_score_{}.tsv", "pearson")}


def read(file):
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


class Comparison:
    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, work
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.model)

    def ours(self, task, seed, precision, execution, *more):
        head, label, files, metric = TASKS[task]
        config = self.work / "run.toml"
        config.write_text(CONFIG.format(model=self.arguments.model.resolve(), head=head, label=label, precision=precision, seed=seed,
                                        train=self.work / "train.tsv", dev=self.arguments.reviews.resolve() / files.format("dev"),
                                        execution=execution, steps=self.arguments.steps, out=self.work / "out"))
        metrics = self.work / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        done = subprocess.run([self.arguments.tools / "l2l-train", config, "--quiet", "--metrics", metrics, *more],
                              capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(self.work / "cache")})
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def batch(self, rows, label, head):
        batch = self.tokenizer([row["sentence"] for row in rows], padding=True, truncation=True, max_length=64, return_tensors="pt")
        number = float if head == "regression" else int
        return {**batch, "labels": torch.tensor([number(row[label]) for row in rows])}

    def theirs(self, task, precision, start, rates):
        head, label, files, metric = TASKS[task]
        model = transformers.AutoModelForSequenceClassification.from_pretrained(start, hidden_dropout_prob=0.0,
                                                                                attention_probs_dropout_prob=0.0)
        decayed = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() <= 1]
        optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], eps=1e-8)
        rows = read(self.work / "train.tsv")
        model.train()
        for step, rate in enumerate(rates):
            for group in optimizer.param_groups:
                group["lr"] = rate
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                loss = model(**self.batch([rows[(32 * step + i) % len(rows)] for i in range(32)], label, head)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        rows = read(self.arguments.reviews / files.format("dev"))
        found, wanted = [], []
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            for begin in range(0, len(rows), 64):
                batch = self.batch(rows[begin:begin + 64], label, head)
                logits = model(**batch).logits.float()
                found += (logits[:, 0] if head == "regression" else logits.argmax(-1)).tolist()
                wanted += batch["labels"].tolist()
        score = pearsonr(found, wanted)[0] if head == "regression" else accuracy_score(wanted, found)
        return {"loss": loss.item(), "metric": float(score)}

    def pair(self, task, seed, precision):
        head, label, files, metric = TASKS[task]
        rows = (self.arguments.reviews / files.format("train")).read_text().splitlines()
        order = rows[1:]
        random.Random(seed).shuffle(order)
        (self.work / "train.tsv").write_text("\n".join([rows[0], *order]) + "\n")
        start = self.ours(task, seed, precision, "relay", "--steps", "0")["checkpoint"]
        start = pathlib.Path(start).rename(self.work / f"start-{task}-{seed}-{precision}")
        relay = self.ours(task, seed, precision, "relay")
        rates = [json.loads(line)["learning_rate"] for line in (self.work / "metrics.jsonl").read_text().splitlines()
                 if '"loss"' in line]
        resident = self.ours(task, seed, precision, "resident")
        other = self.theirs(task, precision, start, rates)
        line = {"task": task, "precision": precision, "seed": seed, "relay": relay["metrics"][metric],
                "resident": resident["metrics"][metric], "pytorch": other["metric"], "loss": relay["loss"], "pytorch_loss": other["loss"],
                "same_bits": relay["weights_hash"] == resident["weights_hash"]}
        print(json.dumps(line), flush=True)
        return line


def row(task, precision, lines):
    def show(values):
        spread = statistics.stdev(values) if len(values) > 1 else 0
        return f"{100 * statistics.mean(values):.2f} ± {100 * spread:.2f}"
    apart = statistics.mean(line["relay"] - line["pytorch"] for line in lines)
    same = all(line["same_bits"] and line["relay"] == line["resident"] for line in lines)
    print(f"| {TASKS[task][3]} | {precision} | {len(lines)} | {show([line['relay'] for line in lines])} | "
          f"{'same bits' if same else 'OTHER BITS'} | {show([line['pytorch'] for line in lines])} | {100 * apart:+.2f} |", flush=True)
    return same and abs(apart) <= 0.01


def main(arguments):
    found = {}
    with tempfile.TemporaryDirectory() as place:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for task in arguments.task.split(","):
                for precision in arguments.precision.split(","):
                    work = pathlib.Path(place) / f"{task}-{seed}-{precision}"
                    work.mkdir()
                    line = Comparison(arguments, work).pair(task, seed, precision)
                    found.setdefault((task, precision), []).append(line)
    print("| metric | precision | seeds | relay | resident | PyTorch | relay - PyTorch |")
    print("|---|---|---|---|---|---|---|")
    sys.exit(0 if all([row(*key, lines) for key, lines in found.items()]) else 1)


if __name__ == "__main__":
    main(ARGUMENTS)
