#!/usr/bin/env python3
"""Whether two builds train the same bits: fourteen small configs (families, precisions, optimizers, formats of moments,
recomputation, placement) are trained by both, and loss, weights_hash and device memory compared.

  python3 tools/compare/same_bits.py BEFORE/tools AFTER/tools

Both must be made for the same instruction set, on this machine. Exit status 1 where a config differs or fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from needs import tools_folder

BASE = {
    "model": {"architecture": "gpt2", "layers": 3, "hidden": 64, "heads": 4, "sequence": 48, "dropout": 0.1},
    "data": {"format": "text"},
    "batch": {"micro_batch": 2, "micro_batches": 3},
    "optimizer": {"name": "adamw", "learning_rate": 0.003},
    "precision": {"compute": "fp32"},
    "device": {"kind": "host", "threads": 2},
    "transfer": {"stash": "host"},
    "run": {"steps": 6, "seed": 7},
}
BERT = {"model.architecture": "bert", "model.vocabulary": 300}
LLAMA = {"model.architecture": "llama", "model.dropout": 0.0}
BF16 = {"precision.compute": "bf16"}
FP16 = {"precision.compute": "fp16"}
CONFIGS = {
    "gpt2 fp32 adamw": {},
    "gpt2 bf16 adamw, global clipping": {**BF16, "optimizer.clip": "global", "optimizer.max_norm": 0.5},
    "gpt2 fp16 lamb": {**FP16, "optimizer.name": "lamb"},
    "bert fp32 lamb, clipping per layer": {**BERT, "optimizer.name": "lamb", "optimizer.clip": "per_layer",
                                           "optimizer.max_norm": 0.5},
    "bert bf16, moments bf16": {**BERT, **BF16, "optimizer.moments": "bf16"},
    "llama bf16, shared heads, untied, nothing recomputed": {**LLAMA, **BF16, "model.kv_heads": 2,
                                                             "model.tie_embeddings": False, "recompute.policy": "none"},
    "llama fp32 sgd, resident": {**LLAMA, "optimizer.name": "sgd", "device.execution": "resident"},
    "gpt2 bf16, core attention, selective, moments int8": {**BF16, "model.attention": "core",
                                                           "recompute.policy": "selective",
                                                           "optimizer.moments": "int8"},
    "gpt2 bf16, reversible in fixed point": {**BF16, "model.reversible": "fixed", "model.dropout": 0.05},
    "gpt2 bf16, gradients fp32, min_cut, after_backward": {**BF16, "precision.gradients": "fp32",
                                                           "recompute.policy": "min_cut",
                                                           "optimizer.update": "after_backward"},
    "gpt2 bf16, two devices, vocabulary in chunks": {**BF16, "device.count": 2, "device.threads": 1,
                                                     "batch.micro_batch": 1, "batch.micro_batches": 4,
                                                     "transfer.vocabulary_chunk": 100,
                                                     "optimizer.moments": "bf16_first"},
    "llama fp16 sgd, stash on the device": {**LLAMA, **FP16, "optimizer.name": "sgd", "transfer.stash": "device"},
    "gpt2 fp32, reversible in floating point": {"model.reversible": "float"},
    "gpt2 fp32, budget, cosine": {"recompute.policy": "budget", "recompute.budget": "600KB", "schedule.kind": "cosine",
                                  "schedule.warmup_steps": 2, "optimizer.moments": "bf16"},
}
WORDS = "the layer weights gradient moves to host and device never waits for data twice".split()


def toml(changes, text):
    sections = {name: dict(keys) for name, keys in BASE.items()}
    sections["data"]["train"] = [text]
    for key, value in changes.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    return "".join(f"[{section}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
                   for section, keys in sections.items())


def train(tools, config):
    run = subprocess.run([tools / "l2l-train", config, "--quiet"], cwd=config.parent, capture_output=True,
                         text=True)
    if run.returncode != 0:
        return "failed: " + run.stderr.strip().splitlines()[-1]
    result = json.loads(run.stdout.strip().splitlines()[-1])
    if isinstance(result["weights_hash"], int):  # as builds before 24 November 2026 printed it
        result["weights_hash"] = f"{result['weights_hash']:016x}"
    return tuple(result[key] for key in ("loss", "weights_hash", "device_peak_bytes"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=tools_folder)
    parser.add_argument("after", type=tools_folder)
    both = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        text, config = pathlib.Path(folder) / "text", pathlib.Path(folder) / "config.toml"
        text.write_text(" ".join(WORDS[i * i * 7 % 61 % len(WORDS)] for i in range(4000)))
        for name, changes in CONFIGS.items():
            config.write_text(toml(changes, str(text)))
            results = [train(tools, config) for tools in (both.before, both.after)]
            same = results[0] == results[1] and not isinstance(results[0], str)
            different += not same
            print(f"{'same' if same else 'DIFFERENT'}  {name}: {results[0] if same else results}")
    print(f"{len(CONFIGS) - different} of {len(CONFIGS)} configs the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
