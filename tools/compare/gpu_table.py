#!/usr/bin/env python3
"""The performance table of the GPU: L2L against limits of the machine and against PyTorch, in one run of under eight minutes.

  tools/gpu_bench.sh [TOOLS] [--minutes N] [--device cuda|host] [--tiny] [--json FILE]

TOOLS: folder of l2l-bench, and of cuda-op-conformance-gpu if it was built (default build-release/tools). Sections stand in
the order in which they matter; rows for which no time is left say so. --tiny takes toy shapes, --device host runs on the
CPU: to try the script. PyTorch is measured where this python3 has it. Heads of Turing-NLG are 152 wide: only
cuDNN has tensor cores for them. Exit status 1 where the device does not open, which ends the run, where a relayed row or the
ops failed (what is resident may need more memory than there is), and where no row was measured.
"""
import argparse
import dataclasses
import importlib.util
import json
import pathlib
import subprocess
import sys
import time

from machine import print_header
from needs import tools_folder
from shapes import SHAPES, run_json, run_l2l

GIB = 2**30
# Bytes per second at which host state is mapped, touched, page-locked and drawn, to tell whether a row fits in the time.
PREPARATION = 1.5e9


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    release = pathlib.Path(__file__).resolve().parents[2] / "build-release/tools"
    parser.add_argument("tools", nargs="?", default=str(release), type=tools_folder)
    parser.add_argument("--minutes", type=float, default=7.5, help="default 7.5")
    parser.add_argument("--device", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    return parser.parse_args()


def say(text):
    print(text, flush=True)


class Table:
    """Runs L2L and keeps what it measured."""

    def __init__(self, a):
        self.a, self.rows, self.begin = a, {}, time.monotonic()
        self.failed = []  # names of rows that had to be measured
        names = ("tiny-bert", "tiny-gpt2", "tiny-llama") if a.tiny else ("bert-large", "turing-nlg", "llama-7b")
        self.bert, self.turing, self.llama = (SHAPES[name] for name in names)
        self.llama_name = names[2]

    def seconds_left(self):
        return 60 * self.a.minutes - (time.monotonic() - self.begin)

    def train(self, name, shape, execution="relay", steps=3, **extra):
        preparation = 12.2 * shape.parameters() / PREPARATION
        if self.seconds_left() < 10 + 1.3 * preparation:
            return say(f"  {name:34} no time left: its state takes about {preparation:.0f} s to set up")
        settings = {"device.kind": f'"{self.a.device}"'} | {key.replace("__", "."): value for key, value in extra.items()}
        self.rows[name] = result = run_l2l(self.a.tools, shape, execution, steps, settings, self.seconds_left())
        if "error" in result:
            if execution == "relay" and "timed_out" not in result:
                self.failed.append(name)
            return say(f"  {name:34} {result['error']}")
        say(f"  {name:34} {result['tokens_per_second']:11,.0f} tokens/s {result['teraflops']:8.2f} TFLOP/s  device "
            f"{result['device_peak_bytes'] / GIB:7.3f} GiB  stalls: weights {result['weight_stall_ms']:.1f}, stash "
            f"{result['stash_stall_ms']:.1f} of {result['step_ms']:.1f} ms")
        return result

    def run(self, command):
        """Prints what the command says. Whether it did not fail."""
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                                  timeout=max(10, self.seconds_left()))
        except subprocess.TimeoutExpired:
            say(f"  {pathlib.Path(command[0]).name}: no time left")
            return True
        say(done.stdout.rstrip() if done.returncode == 0 else f"  {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        return done.returncode == 0


def link(table):
    """The link, pinned, one way and both ways at once."""
    if not table.run([table.a.tools / "l2l-bench", "link", "--device", table.a.device]):
        sys.exit("gpu_bench: the device does not open: nothing was measured")


def kernels(table):
    """Each op of the layer programs in bf16: products against a plain large one, the others by the bytes they move."""
    name, words = ("cuda-op-conformance-gpu", ["bf16"]) if table.a.device == "cuda" else ("op-conformance", ["0", "matmul_bf16"])
    places = [table.a.tools / name, table.a.tools.parent / "tests/conformance/ops" / name]
    found = next((place for place in places if place.exists()), None)
    if found:
        if not table.run([found, "--speed", *words]):
            table.failed.append("ops")
    else:
        say(f"  {name} was not built")


def llama(table):
    """A 7B Llama shape, AdamW on the host, within 8 GiB of device memory; against PyTorch resident."""
    table.train("relay, 3 buffers of gradients", table.llama, device__memory='"8GiB"', eps__gradient_buffers=3)
    relay = table.train("relay", table.llama, device__memory='"8GiB"')
    if not importlib.util.find_spec("torch"):
        return say("  this python3 has no PyTorch to compare with")
    script = pathlib.Path(__file__).with_name("pytorch_gpu.py")
    for side in ("checkpointed", "plain", "compiled-checkpointed"):
        if table.seconds_left() < 60:
            return say(f"  PyTorch {side}: no time left")
        result = run_json([sys.executable, script, table.a.tools, "--shape", table.llama_name, "--sides", side, "--rounds", 1,
                           "--steps", 2, "--device", "cuda" if table.a.device == "cuda" else "cpu", "--json"],
                          table.seconds_left())
        row = result.get("results", {side: [result]})[side][0]
        table.rows[f"PyTorch {side}"] = row
        if "error" in row:
            say(f"  PyTorch {side:26} {row['error']}")
            continue
        ratio = f"  L2L relay / it {row['step_ms'] / relay['step_ms']:.3f}" if relay else ""
        say(f"  PyTorch {side:26} {1e3 * table.llama.tokens() / row['step_ms']:11,.0f} tokens/s  device "
            f"{row['device_peak_bytes'] / GIB:7.3f} GiB{ratio}")


def relay_and_resident(table):
    """Paper, Tables 2 and 3: BERT-Large resident and relayed, 1, 2 and 4 microbatches."""
    for count in (1, 2, 4):
        shape = dataclasses.replace(table.bert, micro_batches=count)
        resident = table.train(f"resident, {count} microbatches", shape, "resident")
        relay = table.train(f"relay, {count} microbatches", shape)
        if resident and relay:
            say(f"    relay / resident                 {relay['tokens_per_second'] / resident['tokens_per_second']:11.3f}")


def depth(table):
    """Paper, Table 5: depth. Device memory equal to the byte; time per layer, in which embedding and head have a share."""
    rows = {}
    for layers in (24, 96, 384):
        rows[layers] = table.train(f"{layers} layers", dataclasses.replace(table.bert, layers=layers), steps=2)
    done = {layers: row for layers, row in rows.items() if row}
    if len(done) < 2:
        return
    shallow = done[min(done)]["step_ms"] / min(done)
    say(f"  device memory equal to the byte: {len({row['device_peak_bytes'] for row in done.values()}) == 1}")
    for layers, row in done.items():
        each = row["step_ms"] / layers
        say(f"  ms per layer, {layers:4} layers: {each:8.3f}  ({each / shallow:.3f} of that of {min(done)})")


def host_memory():
    """Bytes that this process may still take: the machine's, or those of its control group."""
    available = 0
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            available = 1024 * int(line.split()[1])
    group = pathlib.Path("/sys/fs/cgroup")
    try:
        limit, used = (group / "memory.max").read_text().strip(), int((group / "memory.current").read_text())
        return available if limit == "max" else min(available, int(limit) - used)
    except OSError:
        return available


def turing(table):
    """Paper, Table 6: the 17B shape of Turing-NLG, as deep as host memory and time allow."""
    shape = table.turing
    tables = dataclasses.replace(shape, layers=0).parameters()
    per_layer = dataclasses.replace(shape, layers=1).parameters() - tables
    room = min(0.8 * host_memory(), PREPARATION * (table.seconds_left() - 30) / 1.3)
    layers = max(1, min(shape.layers, int((room / 12.2 - 3 * tables) / per_layer)))
    table.train(f"{layers} of {shape.layers} layers", dataclasses.replace(shape, layers=layers), steps=1)


def main():
    table = Table(arguments())
    print_header(table.a.tools / "l2l-bench", *(["torch"] if importlib.util.find_spec("torch") else []))
    for section in (link, kernels, llama, relay_and_resident, depth, turing):
        say(f"\n{section.__doc__}")
        section(table)
    if table.a.json:
        table.a.json.write_text(json.dumps(table.rows, indent=1))
    if table.failed:
        sys.exit(f"gpu_bench: failed: {'; '.join(table.failed)}")
    if all("error" in row for row in table.rows.values()):
        sys.exit("gpu_bench: nothing was measured")


if __name__ == "__main__":
    main()
