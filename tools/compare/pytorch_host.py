#!/usr/bin/env python3
"""Trains the same models on the host with L2L and with PyTorch, in turn, and compares tokens per second.

  python3 tools/compare/pytorch_host.py build-release/tools [--families gpt2,llama] [--shapes 6x512x256,12x768x1024]
      [--vocabulary N] [--micro-batch N] [--micro-batches N] [--precisions fp32,bf16,fp16] [--policies full,none]
      [--sides checkpointed,plain,compiled] [--mkl-any-vendor] [--threads N] [--steps N] [--rounds N] [--json]

A shape is LAYERSxHIDDENxSEQUENCE, with heads of 64. Sides of PyTorch:
  plain          fused attention, fused AdamW, everything kept for the backward pass
  checkpointed   the same, every block recomputed in the backward pass (what the relay does by "full", too)
  compiled       plain, under torch.compile
Both sides: fp32 masters, AdamW, no clipping, dropout 0, gradients accumulated over the microbatches, the same threads.
bf16 and fp16 are PyTorch's autocast, fp16 with a gradient scaler; L2L's fp16 on the host is a storage format, its
arithmetic fp32. L2L: the relay, with its defaults but for the policy. A round runs each side once in a process of its own; each reports
the median of its steps, warm-up left out, and the peak of its process. The table gives medians over the rounds, and the
range of the ratios over them. Needs PyTorch (CPU).

MKL, which PyTorch's wheels have for fp32 products, takes AVX-512 on Intel's processors only. --mkl-any-vendor preloads a
library, for PyTorch's sides, that tells it that this is one: where MKL then takes it, an fp32 product takes about half as long.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from machine import print_header, processor
from needs import fail, needs, tools_folder
from shapes import Shape, run_json, run_l2l

SIDES = ("checkpointed", "plain", "compiled")
WARM_UP = 2  # steps of PyTorch's that are not counted: torch.compile may compile again in the second
MIB = 2**20
MKL_ANY_VENDOR = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"  # what MKL asks, in C


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-bench")
    for name, value, known in (("families", "gpt2", ("gpt2", "llama")), ("precisions", "bf16", ("fp32", "bf16", "fp16")),
                               ("policies", "full", ("full", "none", "auto")), ("sides", ",".join(SIDES), SIDES)):
        parser.add_argument(f"--{name}", type=some_of(known), default=value, help=f"of {', '.join(known)}; default {value}")
    parser.add_argument("--shapes", type=lambda text: [[int(n) for n in each.split("x")] for each in text.split(",")],
                        default="6x512x256", help="default 6x512x256")
    for name, value in (("vocabulary", 256), ("micro-batch", 4), ("micro-batches", 4), ("threads", os.cpu_count()), ("steps", 5),
                        ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--mkl-any-vendor", action="store_true",
                        help="let PyTorch's MKL use AVX-512 on other processors than Intel's: its best setting there (needs a C compiler)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


def some_of(known):
    def split(text):
        words = text.split(",")
        if unknown := set(words) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return words
    return split


def shape_of(a, family, layers, hidden, sequence):
    heads = max(1, hidden // 64)
    # Llama's three matrices have about as many elements as GPT-2's two.
    intermediate = 4 * hidden if family == "gpt2" else (8 * hidden // 3 + 63) // 64 * 64
    return Shape(family, layers, hidden, heads, heads, intermediate, a.vocabulary, sequence, a.micro_batch, a.micro_batches)


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def train_pytorch(a):
    """Prints one JSON object: median time of a step, peak of the process."""
    import torch
    from pytorch_models import make_model

    shape = shape_of(a, a.families[0], *a.shapes[0])
    types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    precision = a.precisions[0]
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = make_model(shape, recompute=a.side == "checkpointed")
    step_model = torch.compile(model) if a.side == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    seconds = []
    for _ in range(a.steps + WARM_UP):
        begin = time.perf_counter()
        for _ in range(shape.micro_batches):
            tokens = torch.randint(shape.vocabulary, (shape.micro_batch, shape.sequence + 1))
            with torch.autocast("cpu", dtype=types[precision]) if precision in types else contextlib.nullcontext():
                loss = step_model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()) / shape.tokens()
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"step_ms": 1e3 * statistics.median(seconds[WARM_UP:]), "host_bytes": peak_bytes()}))


def build_preload(folder):
    """The library of --mkl-any-vendor."""
    library = pathlib.Path(folder, "mkl_any_vendor.so")
    command = [*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    try:
        done = subprocess.run(command, input=MKL_ANY_VENDOR, capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"--mkl-any-vendor needs a C compiler: {command[0]}: {error.strerror}")
    if done.returncode:
        fail(f"--mkl-any-vendor: {command[0]}: {done.stderr.strip()}")
    return library


def run_pytorch(a, side, family, shape, precision):
    words = {"--side": side, "--families": family, "--shapes": "x".join(map(str, shape)), "--precisions": precision}
    preload = ":".join(str(each) for each in (a.preload, os.environ.get("LD_PRELOAD")) if each)
    return run_json([sys.executable, __file__, *sys.argv[1:], *itertools.chain(*words.items())], env={**os.environ, "LD_PRELOAD": preload})


def compare(a, family, shape, precision):
    """{side: [result per round]}; L2L's sides are the policies."""
    results = {side: [] for side in a.policies + a.sides}

    def add(side, number, result):
        results[side].append(result)
        print(f"{family} {'x'.join(map(str, shape))}, {precision}, {side}, round {number + 1} of {a.rounds}: "
              f"{result.get('error') or format(result['step_ms'], ',.1f') + ' ms'}", file=sys.stderr, flush=True)

    for number in range(a.rounds):
        for policy in a.policies:
            extra = {"device.kind": '"host"', "device.threads": a.threads, "eps.threads": a.threads,
                     "precision.compute": f'"{precision}"', "recompute.policy": f'"{policy}"', "transfer.stash": '"auto"'}
            add(policy, number, run_l2l(a.tools, shape_of(a, family, *shape), steps=a.steps, extra=extra))
        for side in a.sides:
            add(side, number, run_pytorch(a, side, family, shape, precision))
    return results


def cell(a, shape, rounds, own=None):
    """Tokens per second and peak; `own`: rounds of L2L, whose ratio to these is added."""
    if failed := [r["error"] for r in rounds if "error" in r]:
        return failed[0]
    rate = 1e3 * shape.tokens() / statistics.median(r["step_ms"] for r in rounds)
    text = f"{rate:,.0f} ({max(r['host_bytes'] for r in rounds) / MIB:,.0f})"
    if own is None or any("error" in r for r in own):
        return text
    ratios = sorted(theirs["step_ms"] / ours["step_ms"] for theirs, ours in zip(rounds, own))
    return text + f": {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def note_of_mkl(a):
    if a.mkl_any_vendor:
        return "PyTorch's sides: MKL for any vendor (--mkl-any-vendor)"
    if processor("vendor_id") == "AuthenticAMD":
        return ("PyTorch's sides: MKL as it comes, on AMD's processors without AVX-512 in fp32; --mkl-any-vendor is PyTorch's best "
                "setting here")
    return "PyTorch's sides: MKL as it comes"


def main():
    a = arguments()
    if a.side:
        return train_pytorch(a)
    needs("torch")
    with tempfile.TemporaryDirectory() as folder:
        a.preload = build_preload(folder) if a.mkl_any_vendor else None
        print_header(a.tools / "l2l-bench", "torch", json=a.json)
        print(note_of_mkl(a), file=sys.stderr if a.json else sys.stdout, flush=True)
        measure(a)


def measure(a):
    cases = list(itertools.product(a.families, a.shapes, a.precisions))
    if a.json:
        return print(json.dumps([{"family": family, "shape": shape, "precision": precision, "mkl_any_vendor": a.mkl_any_vendor,
                                  "results": compare(a, family, shape, precision)} for family, shape, precision in cases]))
    print(f"{a.threads} threads, {a.micro_batches} x {a.micro_batch} sequences per step, vocabulary {a.vocabulary}\n"
          f"Tokens per second (peak MiB of the process): L2L over it (range over {a.rounds} rounds)\n")
    print(f"| model | L2L | {' | '.join(a.sides)} |\n|{'---|' * (2 + len(a.sides))}")
    for family, shape, precision in cases:
        results, model = compare(a, family, shape, precision), shape_of(a, family, *shape)
        for policy in a.policies:
            cells = [cell(a, model, results[policy]), *(cell(a, model, results[side], results[policy]) for side in a.sides)]
            name = f"{family} {'x'.join(map(str, shape))}, {precision}, \"{policy}\""
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
