#!/usr/bin/env python3
"""Trains the same GPT-2 on the host with L2L and with PyTorch, in turn, and compares tokens per second.

  python3 tools/compare/pytorch_host.py build-release/tools [--layers N] [--hidden N] [--sequence N] [--micro-batch N]
      [--micro-batches N] [--threads N] [--steps N] [--rounds N] [--json]

Needs PyTorch (CPU). Both sides: the same shapes, batch and threads, bf16 arithmetic on fp32 master weights, AdamW, no
clipping, dropout 0, gradients accumulated over the microbatches. PyTorch runs under autocast (its way to the same
precision), with fused attention and fused AdamW; with activation checkpointing of every block (what the relay does too:
only layer inputs are kept), and without. A round runs each side once in a process of its own; each reports the median of
its steps but the first. The table gives medians over the rounds, and the range of the ratio over them.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", help="folder of l2l-train")
    for name, value in (("layers", 6), ("hidden", 512), ("sequence", 256), ("micro-batch", 4), ("micro-batches", 4),
                        ("vocabulary", 256), ("threads", os.cpu_count()), ("steps", 5), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=("plain", "checkpointed"), help=argparse.SUPPRESS)
    return parser.parse_args()


def tokens_per_step(a):
    return a.micro_batch * a.micro_batches * a.sequence


def train_pytorch(a):
    """Prints the median seconds of a step."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    heads = max(1, a.hidden // 64)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(a.hidden), nn.LayerNorm(a.hidden)
            self.attention, self.projection = nn.Linear(a.hidden, 3 * a.hidden), nn.Linear(a.hidden, a.hidden)
            self.wide, self.narrow = nn.Linear(a.hidden, 4 * a.hidden), nn.Linear(4 * a.hidden, a.hidden)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2)
                       for part in self.attention(self.ln_1(x)).chunk(3, -1))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
            x = x + self.projection(mixed)
            return x + self.narrow(functional.gelu(self.wide(self.ln_2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.places = nn.Embedding(a.vocabulary, a.hidden), nn.Embedding(a.sequence, a.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
            self.norm = nn.LayerNorm(a.hidden)

        def forward(self, tokens, targets):
            x = self.table(tokens) + self.places.weight
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if a.side == "checkpointed" else block(x)
            logits = functional.linear(self.norm(x), self.table.weight)
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for _ in range(a.steps + 1):
        begin = time.perf_counter()
        for _ in range(a.micro_batches):
            tokens = torch.randint(a.vocabulary, (a.micro_batch, a.sequence + 1))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(tokens[:, :-1], tokens[:, 1:]) / tokens_per_step(a)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    print(statistics.median(seconds[1:]))


CONFIG = """
[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
vocabulary = {vocabulary}
sequence = {sequence}
dropout = 0
[data]
train = ["{folder}/text"]
[batch]
micro_batch = {micro_batch}
micro_batches = {micro_batches}
[optimizer]
learning_rate = 1e-4
[precision]
compute = "bf16"
[device]
threads = {threads}
[eps]
threads = {threads}
[transfer]
stash = "host"
[run]
steps = {steps}
"""


def seconds_of_l2l(a, folder):
    text = pathlib.Path(folder, "text")
    text.write_bytes(bytes(i * 7919 // 13 % 251 for i in range(200_000)))
    values = dict(vars(a), heads=max(1, a.hidden // 64), folder=folder, steps=a.steps + 1)
    pathlib.Path(folder, "run.toml").write_text(CONFIG.format(**values))
    tool = pathlib.Path(a.tools).resolve() / "l2l-train"
    subprocess.run([tool, "run.toml", "--quiet", "--metrics", "metrics.jsonl"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["step_ms"] / 1000 for line in lines[1:])


def seconds_of_pytorch(side):
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()[-1])


def compare(a):
    rounds = []
    for _ in range(a.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append({"l2l": seconds_of_l2l(a, folder), "checkpointed": seconds_of_pytorch("checkpointed"),
                           "plain": seconds_of_pytorch("plain")})
    rate = {side: tokens_per_step(a) / statistics.median(r[side] for r in rounds) for side in rounds[0]}
    ratios = {side: sorted(r[side] / r["l2l"] for r in rounds) for side in ("checkpointed", "plain")}
    return rate, ratios


def main():
    a = arguments()
    if a.side:
        return train_pytorch(a)
    rate, ratios = compare(a)
    if a.json:
        return print(json.dumps({"tokens_per_second": rate, "l2l_over": ratios}))
    print(f"{a.layers} layers x {a.hidden}, {a.micro_batches} x {a.micro_batch} x {a.sequence} tokens, bf16, {a.threads} threads")
    print(f"L2L relay                        {rate['l2l']:8.0f} tokens/s")
    for side, what in (("checkpointed", "with"), ("plain", "without")):
        low, middle, high = ratios[side][0], statistics.median(ratios[side]), ratios[side][-1]
        print(f"PyTorch {what:7} checkpointing     {rate[side]:8.0f} tokens/s   L2L / PyTorch {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
