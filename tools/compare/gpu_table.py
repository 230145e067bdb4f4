#!/usr/bin/env python3
"""The performance table of the GPU: L2L against limits of the machine and against PyTorch, in one run of under eight minutes.

  tools/gpu_bench.sh [TOOLS] [--minutes N] [--device cuda|host] [--tiny] [--json FILE]

TOOLS: folder of l2l-bench (default build-release/tools). Sections, in the order in which they matter; those for which no
time is left are named at the end. --tiny takes toy shapes, --device host runs on the CPU: to try the script. PyTorch is
measured where this python3 has it.
"""
import argparse
import dataclasses
import importlib.util
import json
import pathlib
import subprocess
import sys
import time

from shapes import SHAPES, run_l2l

GIB = 2**30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", nargs="?", default=pathlib.Path(__file__).parents[2] / "build-release/tools", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=7.5, help="default 7.5")
    parser.add_argument("--device", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    return parser.parse_args()


class Table:
    """Runs L2L and keeps what it measured."""

    def __init__(self, a):
        self.a, self.rows, self.begin = a, {}, time.monotonic()
        self.bert, self.turing, self.llama = (SHAPES[f"tiny-{n}"] if a.tiny else SHAPES[m] for n, m in
                                              (("bert", "bert-large"), ("gpt2", "turing-nlg"), ("llama", "llama-7b")))

    def seconds_left(self):
        return 60 * self.a.minutes - (time.monotonic() - self.begin)

    def train(self, name, shape, execution="relay", steps=3, **extra):
        settings = {"device.kind": f'"{self.a.device}"'} | {key.replace("__", "."): value for key, value in extra.items()}
        self.rows[name] = result = run_l2l(self.a.tools, shape, execution, steps, settings)
        if "error" in result:
            print(f"  {name:34} {result['error']}", flush=True)
            return None
        print(f"  {name:34} {result['tokens_per_second']:11,.0f} tokens/s {result['teraflops']:8.2f} TFLOP/s  device "
              f"{result['device_peak_bytes'] / GIB:7.3f} GiB  stalls: weights {result['weight_stall_ms']:.1f}, stash "
              f"{result['stash_stall_ms']:.1f} of {result['step_ms']:.1f} ms", flush=True)
        return result

    def ratio(self, what, numerator, denominator, key="tokens_per_second"):
        if numerator and denominator:
            print(f"  {what:34} {numerator[key] / denominator[key]:11.3f}", flush=True)


def run_tool(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  {pathlib.Path(command[0]).name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return done.stdout.rstrip()


def link(table):
    """The link, pinned, one way and both ways at once."""
    print(run_tool([table.a.tools / "l2l-bench", "link", "--device", table.a.device]))


def products(table):
    """Matrix products of the layer programs against a plain large one."""
    tool = table.a.tools / ("cuda-op-conformance-gpu" if table.a.device == "cuda" else "op-conformance")
    beside = [tool, table.a.tools.parent / "tests/conformance/ops" / tool.name]
    found = next((path for path in beside if path.exists()), None)
    print(run_tool([found, "--speed", "0", "matmul"]) if found else f"  {tool.name} was not built")


def relay_and_resident(table):
    """Paper, Tables 2 and 3: BERT-Large resident and relayed, 1, 2 and 4 microbatches."""
    for count in (1, 2, 4):
        shape = dataclasses.replace(table.bert, micro_batches=count)
        resident = table.train(f"resident, {count} microbatches", shape, "resident")
        relay = table.train(f"relay, {count} microbatches", shape)
        table.ratio("  relay / resident", relay, resident)


def depth(table):
    """Paper, Table 5: depth. Device memory equal to the byte, time per layer within 2%."""
    rows = {}
    for layers in (24, 96, 384):
        if table.seconds_left() < 30:
            break
        shape = dataclasses.replace(table.bert, layers=layers, micro_batches=1)
        rows[layers] = table.train(f"{layers} layers", shape, steps=2)
    done = {layers: row for layers, row in rows.items() if row}
    if len(done) < 2:
        return
    least = min(done)
    print(f"  device memory equal to the byte: {len({row['device_peak_bytes'] for row in done.values()}) == 1}")
    for layers, row in done.items():
        print(f"  ms per layer, {layers:4} layers: {row['step_ms'] / layers:8.3f}  "
              f"({row['step_ms'] / layers / (done[least]['step_ms'] / least):.3f} of that of {least})")


def host_memory():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return 1024 * int(line.split()[1])
    return 0


def turing(table):
    """Paper, Table 6: the 17B shape of Turing-NLG, as deep as host memory allows."""
    shape = table.turing
    per_layer = dataclasses.replace(shape, layers=1).parameters() - dataclasses.replace(shape, layers=0).parameters()
    layers = max(1, min(shape.layers, int((0.7 * host_memory() - 40 * shape.vocabulary * shape.hidden) / (12.2 * per_layer))))
    table.train(f"{layers} of {shape.layers} layers", dataclasses.replace(shape, layers=layers), steps=1)


def llama(table):
    """A 7B Llama shape, AdamW on the host; device memory at most 8 GiB; against PyTorch resident."""
    table.train("relay", table.llama, device__memory='"8GiB"')
    if not importlib.util.find_spec("torch"):
        return print("  this python3 has no PyTorch to compare with")
    side = "checkpointed" if table.seconds_left() < 150 else "checkpointed,plain,fsdp"
    name = next(name for name, shape in SHAPES.items() if shape == table.llama)
    print(run_tool([sys.executable, pathlib.Path(__file__).with_name("pytorch_gpu.py"), table.a.tools, "--shape", name, "--sides",
                    f"relay,{side}", "--rounds", "1", "--steps", "2", "--device",
                    "cuda" if table.a.device == "cuda" else "cpu"]))


def main():
    table = Table(arguments())
    skipped = []
    for section in (link, products, llama, relay_and_resident, depth, turing):
        if table.seconds_left() < 20:
            skipped.append(section.__doc__.splitlines()[0])
            continue
        print(f"\n{section.__doc__}", flush=True)
        section(table)
    for what in skipped:
        print(f"\nno time was left for: {what}")
    if table.a.json:
        table.a.json.write_text(json.dumps(table.rows, indent=1))


if __name__ == "__main__":
    main()
