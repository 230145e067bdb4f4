#!/usr/bin/env python3
"""What loading and exporting a Llama of 1.0 billion parameters in 5 shards takes: peak memory against the contract, and time
against a cold read of the files and a random initialisation.

    hub_load.py BUILD/tools FOLDER [--runs N]       (FOLDER: room for 5 GB; needs PyTorch and transformers)
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from machine import print_header
from needs import needs, tools_folder

CONFIG = """
[model]
{model}
sequence = 64
dropout = 0
[data]
train = ["{data}"]
format = "tokens"
[batch]
micro_batch = 1
[precision]
compute = "bf16"
"""
RANDOM = """architecture = "llama"
layers = 20
hidden = 2048
heads = 32
kv_heads = 4
intermediate = 5632
vocabulary = 32000
tie_embeddings = false
positions = 2048"""


def make(folder):
    import torch
    import transformers
    config = transformers.LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=20, num_attention_heads=32,
                                      num_key_value_heads=4, vocab_size=32000)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="440MB")


def drop_caches(folder):
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_cold(folder):
    drop_caches(folder)
    begin = time.monotonic()
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return time.monotonic() - begin


def run(*command):
    """Seconds, standard output, and peak resident bytes of the process."""
    begin = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command}: status {status}")
    return time.monotonic() - begin, out, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    if sys.argv[1:2] == ["--make"]:
        return make(pathlib.Path(sys.argv[2]))
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    folder, tools = arguments.folder.resolve(), arguments.tools
    model, out = folder / "model", folder / "out"
    print_header(tools / "l2l-bench")
    if not model.exists():  # in a process of its own: a child's peak begins with its parent's
        needs("torch", "transformers")
        folder.mkdir(exist_ok=True)
        if subprocess.run([sys.executable, __file__, "--make", model], check=False).returncode:
            shutil.rmtree(model, ignore_errors=True)
            sys.exit("hub_load.py: the model was not made")
    (folder / "data.bin").write_bytes(bytes(2000))
    for name, text in (("load", f'pretrained = "{model}"'), ("random", RANDOM)):
        (folder / f"{name}.toml").write_text(CONFIG.format(model=text, data=folder / "data.bin"))
    cold, prepared = [], {"load": [], "random": []}
    for _ in range(arguments.runs):
        cold.append(read_cold(model))
        for name, times in prepared.items():
            drop_caches(model)
            _, text, _ = run(tools / "l2l-bench", "step", folder / f"{name}.toml", "--steps", 1, "--json")
            result = json.loads(text)
            times.append(result["prepare_seconds"])
            print(f"{name}: {result['parameters'] / 1e9:.2f}B parameters, {result['prepare_seconds']:.1f} s", flush=True)
    cold, load, drawn = (statistics.median(times) for times in (cold, prepared["load"], prepared["random"]))
    print(f"medians: cold read {cold:.1f} s, random {drawn:.1f} s, load {load:.1f} s, {load / max(cold, drawn):.2f} of the longer")
    for name in prepared:
        shutil.rmtree(out, ignore_errors=True)
        _, text, peak = run(tools / "l2l-train", folder / f"{name}.toml", "--steps", 1, "--quiet", "--set",
                            f"checkpoint.directory={out}")
        contract = json.loads(text.splitlines()[-1])["predicted_host_bytes"]
        print(f"{name}, a step and a checkpoint: peak {peak / 2**20:.1f} MiB, contract {contract / 2**20:.1f} MiB", flush=True)
    shutil.rmtree(out, ignore_errors=True)
    seconds, _, peak = run(tools / "l2l-export", model, out, "--dtype", "bf16", "--max-shard-size", "440MB", "--quiet")
    print(f"export: {seconds:.1f} s, peak {peak / 2**20:.0f} MiB, {len(list(out.glob('*.safetensors')))} files")


if __name__ == "__main__":
    main()
