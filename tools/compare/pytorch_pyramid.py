#!/usr/bin/env python3
"""Trains RevBiFPN on the host with L2L and with PyTorch, in turn, and compares images per second.

  python3 tools/compare/pytorch_pyramid.py build-release/tools [--scale 0] [--image PIXELS] [--micro-batch N] [--micro-batches N]
      [--sides checkpointed,plain] [--kinds float,fixed,none] [--threads N] [--steps N] [--rounds N] [--json]

Sides of PyTorch (fp32, channels last): plain keeps everything for the backward pass, checkpointed recomputes every layer. Kinds of L2L: "float"
and "fixed" rebuild the inputs of layers, "none" keeps them and recomputes; all by the relay. Both sides: AdamW, no
clipping, dropout 0, gradients accumulated over the microbatches, the same threads. A round runs each once, in a process of its own;
each reports the median of its steps, of which two come before, and the peak of its process. The table gives medians over the rounds.
Needs PyTorch (CPU).
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

from shapes import run_json

MIB = 2**20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", help="folder of l2l-bench")
    for name, value in (("scale", 0), ("image", 0), ("micro-batch", 4), ("micro-batches", 2), ("threads", os.cpu_count()), ("steps", 5),
                        ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    for name, value in (("sides", "checkpointed,plain"), ("kinds", "float,fixed,none")):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=value.split(","), help=f"default {value}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    return parser.parse_args()


def run_pytorch(a):
    """What one side reports, as JSON."""
    import resource

    import torch
    import torch.nn.functional as F

    from pyramid_model import published

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model, image = published(a.scale)
    image = a.image or image
    p = {key: torch.randn(shape) / shape[-1] ** 0.5 if len(shape) > 1 else torch.ones(shape) for key, shape in model.shapes().items()
         if "running" not in key}
    for parameter in p.values():
        parameter.requires_grad_()
    optimizer = torch.optim.AdamW(p.values(), lr=1e-4, fused=True)
    x = torch.randn(a.micro_batches, a.micro_batch, image, image, 3)
    t = torch.randint(model.classes, (a.micro_batches, a.micro_batch))
    seconds = []
    for _ in range(2 + a.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        for images, classes in zip(x, t):
            loss = F.cross_entropy(model.forward(p, images, a.side == "checkpointed"), classes) / a.micro_batches
            loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    images = a.micro_batch * a.micro_batches
    print(json.dumps({"images_per_second": images / statistics.median(seconds[2:]), "host_bytes": peak, "version": torch.__version__}))


def commands(a):
    shape = ["--scale", a.scale, "--image", a.image, "--micro-batch", a.micro_batch, "--micro-batches", a.micro_batches, "--steps",
             a.steps, "--threads", a.threads]
    for side in a.sides:
        yield f"PyTorch, {side}", [sys.executable, __file__, a.tools, "--side", side, *shape]
    for kind in a.kinds:
        yield f'L2L, "{kind}"', [pathlib.Path(a.tools).resolve() / "l2l-bench", "pyramid", "--json", "--reversible", kind, *shape]


def main():
    a = arguments()
    if a.side:
        return run_pytorch(a)
    results = {}
    for _ in range(a.rounds):
        for name, command in commands(a):
            result = run_json(command)
            if "error" in result:
                sys.exit(f"{name}: {result['error']}")
            results.setdefault(name, []).append(result)
    median = lambda name, key: statistics.median(each[key] for each in results[name])
    rows = {name: {key: median(name, key) for key in ("images_per_second", "host_bytes")} for name in results}
    if a.json:
        return print(json.dumps(rows))
    print(f"RevBiFPN-S{a.scale}, {a.micro_batch} x {a.micro_batches} images, {a.threads} threads, medians of {a.rounds} rounds")
    sides = [name for name in rows if name.startswith("PyTorch")]
    print(f"{'':24} {'images/s':>9} {'peak, MiB':>10} " + " ".join(f"{'of ' + side.split(', ')[1]:>16}" for side in sides))
    for name, row in rows.items():
        ratios = " ".join(f"{row['images_per_second'] / rows[side]['images_per_second']:16.2f}" for side in sides)
        print(f"{name:24} {row['images_per_second']:9.2f} {row['host_bytes'] / MIB:10.0f} {ratios}")


if __name__ == "__main__":
    main()
