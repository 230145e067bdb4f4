#!/usr/bin/env python3
"""Trains RevBiFPN on the host with L2L and with PyTorch, in turn, and compares images per second.

  python3 tools/compare/pytorch_pyramid.py build-release/tools [--scale 0] [--image PIXELS] [--micro-batch N] [--micro-batches N]
      [--sides checkpointed,plain] [--layouts channels-last,contiguous] [--kinds float,fixed,none] [--threads N] [--steps N]
      [--rounds N] [--json]

Sides of PyTorch (fp32): plain keeps everything for the backward pass, checkpointed recomputes every layer; each in both memory
formats, since neither is the faster one for both. Kinds of L2L: "float" and "fixed" rebuild the inputs of layers, "none" keeps
them and recomputes; all by the relay. Both sides: AdamW, no clipping, dropout 0, gradients accumulated over the microbatches, the
same threads. A round runs each once, in a process of its own; each reports the median of its steps, of which two come before,
and the peak of its process. The table gives medians over the rounds, and ratios to each side of PyTorch in its faster layout.
Needs PyTorch (CPU).
"""
import argparse
import dataclasses
import json
import os
import statistics
import sys
import time

from machine import print_header
from needs import needs, tools_folder
from shapes import run_json

MIB = 2**20
LAYOUTS = ("channels-last", "contiguous")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-bench")
    for name, value in (("scale", 0), ("image", 0), ("micro-batch", 4), ("micro-batches", 2), ("threads", os.cpu_count()), ("steps", 5),
                        ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    for name, value in (("sides", "checkpointed,plain"), ("layouts", ",".join(LAYOUTS)), ("kinds", "float,fixed,none")):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=value.split(","), help=f"default {value}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if unknown := set(a.layouts) - set(LAYOUTS):
        parser.error(f"--layouts: unknown {', '.join(sorted(unknown))}")
    return a


def run_pytorch(a):
    """What one side reports, as JSON."""
    import resource

    import torch
    import torch.nn.functional as F

    from pyramid_model import published

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model, image = published(a.scale)
    if a.layouts == ["contiguous"]:
        model = dataclasses.replace(model, memory_format=torch.contiguous_format)
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
        for layout in a.layouts:
            yield f"PyTorch, {side}, {layout}", [sys.executable, __file__, a.tools, "--side", side, "--layouts", layout, *shape]
    for kind in a.kinds:
        yield f'L2L, "{kind}"', [a.tools / "l2l-bench", "pyramid", "--json", "--reversible", kind, *shape]


def main():
    a = arguments()
    if a.side:
        return run_pytorch(a)
    needs("torch")
    print_header(a.tools / "l2l-bench", "torch", json=a.json)
    results = {}
    for _ in range(a.rounds):
        for name, command in commands(a):
            result = run_json(command)
            if "error" in result:
                sys.exit(f"{name}: {result['error']}")
            results.setdefault(name, []).append(result)
            print(f"{name}: {result['images_per_second']:.2f} images/s", file=sys.stderr, flush=True)
    median = lambda name, key: statistics.median(each[key] for each in results[name])
    rows = {name: {key: median(name, key) for key in ("images_per_second", "host_bytes")} for name in results}
    if a.json:
        return print(json.dumps(rows))
    print(f"RevBiFPN-S{a.scale}, {a.micro_batch} x {a.micro_batches} images, {a.threads} threads, medians of {a.rounds} rounds")
    best = {side: max(rows[f"PyTorch, {side}, {layout}"]["images_per_second"] for layout in a.layouts) for side in a.sides}
    print(f"{'':36} {'images/s':>9} {'peak, MiB':>10} " + " ".join(f"{'of ' + side:>16}" for side in a.sides))
    for name, row in rows.items():
        ratios = " ".join(f"{row['images_per_second'] / rate:16.2f}" for rate in best.values())
        print(f"{name:36} {row['images_per_second']:9.2f} {row['host_bytes'] / MIB:10.0f} {ratios}")


if __name__ == "__main__":
    main()
