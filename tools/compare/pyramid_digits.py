#!/usr/bin/env python3
"""Trains RevBiFPN-S0 on scikit-learn's digits (8 x 8 pixels, each enlarged to 4 x 4) with L2L and with PyTorch, from the same
initial weights and on the same images in the same order, and compares losses and the share of held-out digits that are right.

  python3 tools/compare/pyramid_digits.py build-release/tools [--steps N] [--batch N] [--seeds N] [--kinds float,fixed,none]

Both sides: AdamW, fp32, no dropout, no augmentation. Kinds of L2L: "float" and "fixed" rebuild the inputs of layers, "none"
keeps them. Needs PyTorch (CPU), NumPy, safetensors and scikit-learn.
"""
import argparse
import dataclasses
import json
import pathlib
import subprocess
import tempfile

from needs import needs, tools_folder


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-train")
    for name, value in (("steps", 200), ("batch", 32), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=["none", "float", "fixed"], help="default none,float,fixed")
    return parser.parse_args()


if __name__ == "__main__":
    ARGUMENTS = arguments()
    needs("numpy", "torch", "safetensors", "sklearn")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402

from pyramid_model import published  # noqa: E402

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HELD_OUT, RATE, DECAY, SHARE = 359, 2e-3, 0.01, 0.1  # of weights, and of a step in running statistics
CONFIG = """
[model]
architecture = "revbifpn"
image_size = 32
dropout = 0.0
reversible = "{kind}"
[data]
train = ["train.npy", "train_classes.npy"]
validation = ["test.npy", "test_classes.npy"]
order = "sequential"
[precision]
compute = "fp32"
[batch]
micro_batch = {batch}
micro_batches = 1
[optimizer]
learning_rate = {rate}
weight_decay = {decay}
[recompute]
policy = "full"
[checkpoint]
directory = "{kind}-{steps}"
[run]
steps = {steps}
seed = {seed}
"""


def write_digits(folder):
    """(images [n][32][32][3] of bytes, classes) to train on, and held out."""
    digits = load_digits()
    images = np.kron(np.rint(digits.images * 255 / 16), np.ones((1, 4, 4))).astype(np.uint8)[..., None].repeat(3, axis=3)
    parts = {"train": slice(None, -HELD_OUT), "test": slice(-HELD_OUT, None)}
    for name, part in parts.items():
        np.save(folder / f"{name}.npy", images[part])
        np.save(folder / f"{name}_classes.npy", digits.target[part].astype(np.int64))
    return [(images[part], digits.target[part]) for part in parts.values()]


def run_l2l(a, folder, kind, seed, steps):
    """Losses of all steps, share of held-out digits that are right, and the checkpoint."""
    config, metrics = folder / "run.toml", folder / f"{kind}-{steps}.jsonl"
    config.write_text(CONFIG.format(kind=kind, batch=a.batch, rate=RATE, decay=DECAY, seed=seed, steps=steps))
    out = subprocess.run([a.tools / "l2l-train", config.name, "--quiet", "--metrics", metrics.name], cwd=folder, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if steps > 0 else []
    losses = [line["loss"] for line in lines if "step_ms" in line]
    checkpoint = max((folder / f"{kind}-{steps}").glob("step-*"))
    return losses, json.loads(out)["metrics"]["accuracy"], checkpoint


def pixels(images):
    return (torch.from_numpy(images).float() / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)


def run_pytorch(a, weights, train, test):
    """Losses of all steps, and the share of held-out digits that are right."""
    p = {key: value.clone().requires_grad_("running" not in key) for key, value in weights.items()}
    trains = True

    def batch_norm(p, x, key, epsilon):
        return F.batch_norm(x, p[f"{key}.running_mean"], p[f"{key}.running_var"], p[f"{key}.weight"], p[f"{key}.bias"], training=trains,
                            momentum=SHARE, eps=epsilon)

    model = dataclasses.replace(published(0)[0], classes=10, batch_norm=batch_norm)
    learnt = [value for value in p.values() if value.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [w for w in learnt if w.dim() > 1], "weight_decay": DECAY},
                                   {"params": [w for w in learnt if w.dim() == 1], "weight_decay": 0}], lr=RATE)
    losses = []
    for step in range(a.steps):
        rows = np.arange(step * a.batch, (step + 1) * a.batch) % len(train[0])
        loss = F.cross_entropy(model.forward(p, pixels(train[0][rows])), torch.from_numpy(train[1][rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    trains = False
    with torch.no_grad():
        right = model.forward(p, pixels(test[0])).argmax(1) == torch.from_numpy(test[1])
    return losses, right.double().mean().item()


def main(a):
    print("| seed | side | loss of step 1 | largest relative difference over 10 steps | mean loss of the last 20 steps | right of "
          f"{HELD_OUT} |\n|---|---|---|---|---|---|")
    for seed in range(1, a.seeds + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            train, test = write_digits(folder)
            _, _, initial = run_l2l(a, folder, a.kinds[0], seed, steps=0)
            theirs, right = run_pytorch(a, load_file(initial / "model.safetensors"), train, test)
            sides = [("PyTorch", theirs, right)]
            for kind in a.kinds:
                losses, right, _ = run_l2l(a, folder, kind, seed, a.steps)
                sides.append((kind, losses, right))
            for side, losses, right in sides:
                apart = max(abs(ours - its) / its for ours, its in zip(losses[:10], theirs[:10]))
                print(f"| {seed} | {side} | {losses[0]:.6f} | {apart:.1e} | {np.mean(losses[-20:]):.4f} | {right * HELD_OUT:.0f} |", flush=True)


if __name__ == "__main__":
    main(ARGUMENTS)
