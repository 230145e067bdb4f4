#!/usr/bin/env python3
"""Trains one shape with L2L and with PyTorch on the same GPU, in turn, and compares tokens per second.

  python3 tools/compare/pytorch_gpu.py build-release/tools --shape llama-7b [--sides relay,plain,...] [--layers N]
      [--micro-batch N] [--micro-batches N] [--steps N] [--rounds N] [--device cuda|cpu] [--json]

Sides:
  relay, resident       L2L; weights and optimizer state on the host (relay: wires as well), stash on the host
  plain                 PyTorch, everything on the GPU: bf16 weights, gradients and AdamW state, fused attention, fused AdamW
  checkpointed          the same, every block recomputed in the backward pass (what the relay does too)
  compiled, compiled-checkpointed   the same two under torch.compile
  fsdp                  PyTorch FSDP2 with CPU offload: fp32 weights and AdamW state on the host, bf16 on the GPU, each
                        block gathered and recomputed
L2L holds fp32 masters and moments; PyTorch's resident sides hold them in bf16, its fastest way. PyTorch has no LAMB: its
sides use AdamW. A round runs each side once in a process of its own; each reports the median of its steps, warm-up left out.
The table gives medians over the rounds and the range of L2L's ratio. Attention is causal for gpt2 and llama only.
"""
import argparse
import dataclasses
import itertools
import json
import os
import statistics
import sys
import tempfile
import time

from machine import print_header
from needs import needs, tools_folder
from shapes import SHAPES, run_json, run_l2l

L2L_SIDES = ("relay", "resident")
PYTORCH_SIDES = ("plain", "checkpointed", "compiled", "compiled-checkpointed", "fsdp")
WARM_UP = 2  # steps of PyTorch's that are not counted: torch.compile may compile again in the second


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-bench")
    parser.add_argument("--shape", choices=SHAPES, default="llama-7b")
    parser.add_argument("--sides", default=",".join(L2L_SIDES + PYTORCH_SIDES))
    for name in ("layers", "micro-batch", "micro-batches"):
        parser.add_argument(f"--{name}", type=int, help="default: the shape's")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=PYTORCH_SIDES, help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.sides = a.sides.split(",")
    unknown = set(a.sides) - set(L2L_SIDES + PYTORCH_SIDES)
    if unknown:
        parser.error(f"--sides: unknown {', '.join(sorted(unknown))}")
    given = {key: getattr(a, key) for key in ("layers", "micro_batch", "micro_batches") if getattr(a, key)}
    a.model = dataclasses.replace(SHAPES[a.shape], **given)
    return a


def offloaded(model):
    """FSDP2: every block and the rest sharded over one rank, parameters on the host between uses."""
    import torch
    import torch.distributed
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    cuda = torch.cuda.is_available()
    with tempfile.NamedTemporaryFile() as file:
        torch.distributed.init_process_group("cuda:nccl,cpu:gloo" if cuda else "gloo", init_method=f"file://{file.name}",
                                             rank=0, world_size=1)
    policies = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)}
    if cuda:
        policies["offload_policy"] = CPUOffloadPolicy(pin_memory=True)
    for block in model.blocks:
        fully_shard(block, **policies)
    return fully_shard(model, **policies)


def train_pytorch(a):
    """Prints one JSON object: median seconds of a step, peak bytes of the GPU."""
    import torch
    from pytorch_models import make_model

    shape, side, device = a.model, a.side, torch.device(a.device)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    recompute = "checkpointed" in side or side == "fsdp"
    if side == "fsdp":
        model = offloaded(make_model(shape, recompute))
    else:
        with device:
            torch.set_default_dtype(torch.bfloat16)
            model = make_model(shape, recompute)
            torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step_model = torch.compile(model) if "compiled" in side else model
    seconds = []
    for _ in range(a.steps + WARM_UP):
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(shape.micro_batches):
            tokens = torch.randint(shape.vocabulary, (shape.micro_batch, shape.sequence + 1), device=device)
            loss = step_model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()) / shape.tokens()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    print(json.dumps({"step_ms": 1e3 * statistics.median(seconds[WARM_UP:]), "device_peak_bytes": peak}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def synchronize(device):
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def run_pytorch(side):
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    return run_json([sys.executable, __file__, *sys.argv[1:], "--side", side], env=environment)


def compare(a):
    """{side: [result per round]}"""
    results = {side: [] for side in a.sides}
    for _ in range(a.rounds):
        for side in a.sides:
            kind = {"device.kind": '"cuda"' if a.device == "cuda" else '"host"'}
            results[side].append(run_l2l(a.tools, a.model, side, a.steps, kind) if side in L2L_SIDES else run_pytorch(side))
    return results


def row(a, side, rounds, own):
    """One line of the table; `own`: rounds of the L2L relay, to divide by."""
    failed = [r["error"] for r in rounds if "error" in r]
    if failed:
        return f"{side:24} {failed[0]}"
    rate = 1e3 * a.model.tokens() / statistics.median(r["step_ms"] for r in rounds)
    text = f"{side:24} {rate:10,.0f} tokens/s  device {rounds[-1]['device_peak_bytes'] / 2**30:8.2f} GiB"
    if side in L2L_SIDES or any("error" in r for r in own):
        return text
    ratios = sorted(theirs["step_ms"] / ours["step_ms"] for theirs, ours in zip(rounds, own))
    return text + f"  L2L relay / it {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"


def device_of(results):
    """As L2L names it."""
    return next((result["device"] for result in itertools.chain(*results.values()) if "device" in result), "device unknown")


def main():
    a = arguments()
    if a.side:
        return train_pytorch(a)
    rivals = ["torch"] if set(a.sides) & set(PYTORCH_SIDES) else []
    needs(*rivals)
    print_header(a.tools / "l2l-bench", *rivals, json=a.json)
    results = compare(a)
    if a.json:
        return print(json.dumps({"shape": dataclasses.asdict(a.model), "results": results}))
    print(f"{a.shape}: {a.model.parameters() / 1e9:.2f}e9 parameters, {a.model.tokens():,} tokens per step, bf16, {device_of(results)}")
    for side, rounds in results.items():
        print(row(a, side, rounds, results.get("relay", [{"error": "not run"}])))


if __name__ == "__main__":
    main()
