#!/usr/bin/env python3
"""How much faster and smaller a step of adapters is than one of full training: the same Llama of about a billion
parameters in bf16 on the host device, in turn, and the host memory of each beside what the contract predicted.

    lora_speed.py BUILD/tools [--layers 16] [--steps 4] [--rounds 1]

Prints a line for each recompute policy.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from machine import print_header
from needs import tools_folder

CONFIG = """
[model]
architecture = "llama"
layers = {layers}
hidden = 2048
heads = 32
kv_heads = 8
intermediate = 8192
vocabulary = 32000
sequence = 256
dropout = 0.0
[data]
train = ["{folder}/text"]
tokenizer = "bytes"
[batch]
micro_batch = 1
micro_batches = 2
[precision]
compute = "bf16"
[transfer]
stash = "host"
[recompute]
policy = "{policy}"
[run]
steps = {steps}
[checkpoint]
directory = ""
"""


def run(tools, folder, settings, policy, adapters):
    (folder / "run.toml").write_text(CONFIG.format(folder=folder, layers=settings.layers, policy=policy, steps=settings.steps))
    command = [tools / "l2l-train", folder / "run.toml", "--quiet", "--metrics", folder / "metrics.jsonl",
               "--set", f"checkpoint.directory={folder}/out"]
    command += ["--set", "lora.rank=8", "--set", 'lora.targets=["q_proj", "v_proj"]'] if adapters else []
    plan = json.loads(subprocess.run([tools / "l2l-plan", *command[1:2], *command[5:]], check=True, capture_output=True, text=True).stdout)
    # A checkpoint of all parameters is not what is measured: the process is stopped behind its last step.
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = []
    while len(lines) < settings.steps and process.poll() is None:
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            pass
        path = folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
    process.kill()
    process.wait()
    (folder / "metrics.jsonl").unlink()
    steps = [json.loads(line) for line in lines[:settings.steps]]
    return statistics.median(step["step_ms"] for step in steps[1:]), steps[-1]["host_bytes"], plan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", type=tools_folder)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--policies", nargs="+", default=["full", "none"])
    settings = parser.parse_args()
    tools = settings.tools
    print_header(tools / "l2l-train")
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "text").write_bytes(bytes(97 + (i * i // 7) % 26 for i in range(200_000)))
        for policy in settings.policies:
            ratios = []
            for _ in range(settings.rounds):
                full, full_bytes, whole = run(tools, folder, settings, policy, adapters=False)
                lora, lora_bytes, plan = run(tools, folder, settings, policy, adapters=True)
                ratios.append(full / lora)
            print(f"{policy:5} {plan['parameters'] / 1e9:.2f}e9 parameters, {plan['trained_parameters']} trained: step {full:.0f} ms over "
                  f"{lora:.0f} ms = {statistics.median(ratios):.2f}; host bytes of adapters {lora_bytes / 2**30:.2f} GiB, predicted "
                  f"{plan['host_bytes'] / 2**30:.2f}; of full training {full_bytes / 2**30:.2f}, predicted {whole['host_bytes'] / 2**30:.2f}",
                  flush=True)


if __name__ == "__main__":
    main()
