#!/usr/bin/env python3
"""Configs drawn at random, each trained in several ways that must end with the same weights.

    random_runs.py BUILD/tools [--minutes M] [--configs N] [--seed S] [--keep FOLDER]

A config draws what the bits depend on: the model (of text, now and then of images), its data, batch, optimizer, precision,
adapters. It is trained once, with everything recomputed and on one thread, and then again with what the bits must not
depend on: recomputation, places of layer inputs and weights, limits on scratch and on device memory, threads, order of
updates, several devices and processes, layers split over devices, and an interruption after which it resumes. Each run
also has to stay within its memory contract. What is refused before step 1 in one of these ways is counted and passed over;
any other exit status, or other weights, is a fault, which is printed with the commands that show it. Exit status 1 when
there is one. The same seed draws the same configs.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mpi_surroundings import SURROUNDINGS  # noqa: E402

GPT2, ENCODERS = ["gpt2"], ["bert", "roberta"]
ROTARY = ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"]
SLIDING = ["mistral", "qwen2", "qwen3", "gemma2", "gemma3"]
HOST_SLACK = 5 << 18  # bytes that a small run may have beside its contract
WORDS = "the quick brown fox jumps over the lazy dog and runs away from it once more".split()


def value(thing):
    """A value as TOML writes it."""
    if isinstance(thing, dict):
        return "{" + ", ".join(f"{key} = {value(part)}" for key, part in thing.items()) + "}"
    if isinstance(thing, list):
        return "[" + ", ".join(map(value, thing)) + "]"
    return json.dumps(thing)


def refusal(messages):
    """What a program says of why it refuses, without names, numbers and ways out."""
    said = next((line for line in messages.splitlines() if line.startswith("l2l-train: ")), messages[-200:])
    return re.sub(r'[0-9][0-9.]*( [KM]iB| B| bytes)?|"[^"]*"', "_", said.removeprefix("l2l-train: ").split(";")[0])[:120]


def text(draw, words):
    return " ".join(draw.choice(WORDS) for _ in range(words))


def write_data(draw, folder, architecture, sequence, keys):
    """Files of one kind, and the keys that name them."""
    rows = lambda make: "".join(json.dumps(make()) + "\n" for _ in range(40))
    longest = max(2, sequence // 4)
    short = lambda: text(draw, draw.randint(1, longest))
    (folder / "stream").write_text(text(draw, 3000))
    kinds = ["stream", "stream", "documents", "classification", "regression"]
    kinds += [] if architecture in ENCODERS else ["prompt", "messages", "mixture"]
    kinds += ["tokens"] if architecture != "gemma3" else []
    kind = draw.choice(kinds)
    name = "rows.jsonl"
    if kind == "stream":
        name = "stream"
    elif kind in ("documents", "mixture"):
        (folder / name).write_text(rows(lambda: {"text": short()}))
        if kind == "mixture":
            keys["data.source"] = [{"train": ["stream"], "weight": draw.choice([1, 2.5])}, {"train": [name], "weight": 1}]
    elif kind == "prompt":
        (folder / name).write_text(rows(lambda: {"prompt": short(), "completion": short()}))
        keys["data.columns"] = ["prompt", "completion"]
        keys["data.learn"] = draw.choice(["all", "completion"])
    elif kind == "messages":
        said = lambda role: {"role": role, "content": short()}
        (folder / name).write_text(rows(lambda: {"messages": [said("user"), said("assistant")]}))
        keys["data.template"] = draw.choice(["chatml", "zephyr"])
        keys["data.learn"] = draw.choice(["all", "assistant"])
    else:
        keys["model.head"] = kind
        keys["data.label"] = "tags" if kind == "tokens" else "label"
        if kind in ("classification", "tokens"):
            keys["model.labels"] = 3
        words = lambda: [draw.choice(WORDS) for _ in range(draw.randint(1, max(1, sequence // 8)))]
        def tags():
            drawn = words()
            return {"tokens": drawn, "tags": [draw.randrange(3) for _ in drawn]}
        make = {"classification": lambda: {"text": short(), "label": draw.randrange(3)},
                "regression": lambda: {"text": short(), "label": draw.random()}, "tokens": tags}[kind]
        (folder / name).write_text(rows(make))
        if kind == "tokens":
            keys["data.columns"] = ["tokens"]
    if kind != "mixture":
        keys["data.train"] = [name]
    if kind not in ("stream", "mixture") and draw.random() < 0.5:
        keys["data.samples"] = "padded"
        keys["data.buckets"] = draw.choice([1, 2, 8])
    if draw.random() < 0.3:
        keys["data.validation"] = [name]
        keys["run.validate_every"] = draw.choice([1, 2])
    if draw.random() < 0.2:
        keys["data.order"] = "sequential"


def draw_training(draw, keys):
    """What the bits depend on of any model's optimizer, schedule and precision."""
    keys["optimizer.name"] = draw.choice(["adamw", "adamw", "adamw", "lamb", "sgd"])
    keys["optimizer.learning_rate"] = draw.choice([1e-3, 1e-2])
    keys["optimizer.clip"] = draw.choice(["none", "per_layer", "global", "global"])
    keys["optimizer.max_norm"] = draw.choice([0.01, 1.0])
    keys["optimizer.moments"] = draw.choice(["fp32", "fp32", "bf16_first", "bf16", "int8"])
    keys["schedule.kind"] = draw.choice(["constant", "cosine", "linear"])
    keys["schedule.warmup_steps"] = draw.choice([0, 2])
    keys["precision.compute"] = draw.choice(["fp32", "fp32", "bf16", "fp16"])
    if draw.random() < 0.3:
        keys["precision.gradients"] = "fp32"
    keys["run.seed"] = draw.randrange(1000)
    keys["run.steps"] = draw.randint(2, 5)


def draw_images(draw, folder):
    """The same of a network for images, whose layers rebuild their inputs."""
    image = lambda: bytes([draw.randrange(10)]) + draw.randbytes(3 * 32 * 32)
    (folder / "train.bin").write_bytes(b"".join(image() for _ in range(40)))
    keys = {"device.kind": "host", "model.architecture": "revbifpn", "model.image_size": 32, "data.train": ["train.bin"],
            "data.augment": draw.choice(["none", "shift"]), "batch.micro_batch": draw.choice([1, 2, 3]),
            "batch.micro_batches": draw.choice([1, 2, 4])}
    if keys["batch.micro_batches"] == 4 and draw.random() < 0.5:
        keys["batch.parts"] = 4
    draw_training(draw, keys)
    return keys


def draw_config(draw, folder):
    """What the bits depend on, as keys of a config."""
    if draw.random() < 0.03:
        return draw_images(draw, folder)
    architecture = draw.choice(GPT2 * 3 + ENCODERS + ROTARY)
    heads = draw.choice([1, 2, 4])
    head_dim = draw.choice([4, 8, 16, 12, 32])
    sequence = draw.choice([8, 16, 33, 64])
    keys = {"device.kind": "host", "model.architecture": architecture, "model.layers": draw.randint(1, 4), "model.heads": heads,
            "model.hidden": heads * head_dim, "model.sequence": sequence}
    write_data(draw, folder, architecture, sequence, keys)
    chance = lambda probability: draw.random() < probability
    if architecture in ROTARY:
        if chance(0.5):
            keys["model.kv_heads"] = draw.choice([divisor for divisor in (1, 2, 4) if heads % divisor == 0])
        if chance(0.3):
            keys["model.head_dim"] = draw.choice([4, 8, 24])
        if chance(0.3):
            keys["model.intermediate"] = draw.choice([20, 64, 100])
    else:
        keys["model.dropout"] = draw.choice([0, 0.1, 0.25])
    if architecture in SLIDING and chance(0.5):
        keys["model.sliding_window"] = draw.choice([1, 4, 7])
        if chance(0.5) and keys["model.layers"] > 1:
            keys["model.layer_types"] = ["sliding_attention", "full_attention"]
    if architecture == "gemma2" and chance(0.5):
        keys["model.attention_softcap"], keys["model.logit_softcap"] = 50.0, 30.0
    if chance(0.3):
        keys["model.tie_embeddings"] = False
    if chance(0.3):
        keys["model.attention"] = "core"
    if architecture not in ENCODERS and chance(0.2):
        keys["model.reversible"] = draw.choice(["float", "fixed"])
    if chance(0.3):
        keys["model.vocabulary"] = draw.choice([300, 1000])
    keys["batch.micro_batch"] = draw.choice([1, 2, 3])
    keys["batch.micro_batches"] = draw.choice([1, 2, 4, 4, 8])
    if keys["batch.micro_batches"] >= 4 and chance(0.6):
        keys["batch.parts"] = 4
    elif chance(0.3):
        keys["device.count"] = draw.choice([count for count in (2, 4) if keys["batch.micro_batches"] % count == 0] or [1])
    splits = heads > 1 and not {"batch.parts", "model.head", "model.attention", "model.reversible", "data.samples"} & set(keys)
    if splits and chance(0.5):
        keys["device.tensor"], keys["device.count"] = 2, 2 * keys.get("device.count", 1)
    draw_training(draw, keys)
    if chance(0.2):
        keys["optimizer.layer_decay"] = 0.9
    if chance(0.2):
        keys["optimizer.group"] = [{"parameters": ["*0.*"], "weight_decay": 0.0, "learning_rate": 1e-4}]
    if chance(0.15):
        keys["optimizer.train"] = draw.choice([["*.0.*"], ["*0.*weight"], ["*weight"]])
    elif chance(0.15) and not {"model.reversible", "device.tensor"} & set(keys):
        keys["lora.rank"] = draw.choice([1, 4])
        keys["lora.dropout"] = draw.choice([0, 0.1])
        if chance(0.5):
            keys["lora.targets"] = [] if "model.head" in keys else ["all-linear"]
    if chance(0.3) and "device.tensor" not in keys:
        keys["transfer.vocabulary_chunk"] = draw.choice([17, 64, 100])
    return keys


def draw_way(draw, keys, several, device_bytes):
    """What the bits must not depend on: keys, and how many processes. `device_bytes`: what another way took."""
    way, ranks = {}, 1
    some = lambda probability, key, *values: way.__setitem__(key, draw.choice(values)) if draw.random() < probability else None
    images = keys["model.architecture"] == "revbifpn"
    rebuilds = images or keys.get("model.reversible", "none") != "none"
    some(0.7, "recompute.policy", *(["auto", "full"] if rebuilds else ["auto", "none", "min_cut", "selective", "full"]))
    if way.get("recompute.policy") in (None, "auto"):
        some(0.0 if rebuilds else 0.2, "recompute.budget", 200_000, 1_000_000)
    # Inputs that are rebuilt in floating point are others in their last bits than those that are kept.
    if not images and keys.get("model.reversible") != "float":
        some(0.5, "transfer.stash", "host", "device")
    some(0.3, "transfer.resident_layers", 0, 1)
    some(0.3, "transfer.prefetch", 1, 2, 3)
    some(0.4, "device.threads", 1, 2, 3)
    some(0.4, "eps.threads", 1, 2, 3)
    some(0.3, "eps.gradient_buffers", 1, 2, 5)
    some(0.2, "eps.verify", False)
    some(0.3, "optimizer.update", "after_backward")
    some(0.2, "data.threads", 2)
    some(0.3, "device.memory", *(int(factor * device_bytes) for factor in (0.8, 1.0, 1.1, 1.5, 3)))
    parts, tensor = keys.get("batch.parts", 0), keys.get("device.tensor", 1)
    groups = keys.get("device.count", 1) // tensor
    if parts:
        groups = draw.choice([1, 2, 4])
    elif groups == 1:
        some(0.15, "device.execution", "resident")
    if several and draw.random() < 0.4:
        ranks = draw.choice([count for count in (1, 2, 4) if groups % count == 0])
    if ranks > 1:
        some(0.5, "distributed.wire", "sharded")
    way["device.count"] = tensor * groups // ranks
    if way["device.count"] > 1:
        some(0.5, "device.feed", "whole", "gathered")
        if tensor == 1:
            some(0.5, "device.sums", "host", "devices")
    return way, ranks


class Fault(Exception):
    pass


class Check:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        # Not the machine's, whose figures of other shapes are memory that no contract knows of.
        self.environment = {**os.environ, **SURROUNDINGS, "L2L_CALIBRATION": str(folder / "calibration"),
                            "XDG_CACHE_HOME": str(folder / "cache")}
        self.several = shutil.which("mpirun") is not None

    def train(self, name, keys, ranks=1, more=()):
        """Result of a run, None where it is refused. Raises Fault where it ends otherwise."""
        named = [word for key, thing in keys.items() for word in ("--set", f"{key}={value(thing)}")]
        launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        command = [*launcher, str(self.arguments.tools / "l2l-train"), "run.toml", "--quiet", *named, *more]
        shown = shlex.join(command)
        try:
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=300, env=self.environment)
        except subprocess.TimeoutExpired:
            raise Fault(f"{name}: not done after 300 s\n{shown}")
        if done.returncode == 2:
            self.reasons[refusal(done.stderr)] += 1
            return None
        if done.returncode != 0:
            raise Fault(f"{name}: exit status {done.returncode}: {done.stderr[-1500:]}\n{shown}")
        self.counts[name] += 1
        result = json.loads(done.stdout.strip().splitlines()[-1])
        result["command"] = shown
        if result["device_peak_bytes"] != result["predicted_device_bytes"]:
            raise Fault(f"{name}: {result['device_peak_bytes']} bytes of device memory, {result['predicted_device_bytes']} by the "
                        f"contract\n{shown}")
        if result["device_peak_bytes"] > keys.get("device.memory", result["device_peak_bytes"]):
            raise Fault(f"{name}: {result['device_peak_bytes']} bytes of device memory, more than the limit\n{shown}")
        most = 1.02 * result["predicted_host_bytes"] + HOST_SLACK
        if result["host_bytes"] > most:
            raise Fault(f"{name}: {result['host_bytes']} bytes of host memory, at most {most:.0f} by the contract\n{shown}")
        return result

    def compare(self, name, first, other):
        if first["weights_hash"] != other["weights_hash"]:
            raise Fault(f"{name}: other weights, losses {first['loss']} and {other['loss']}\n{first['command']}\n{other['command']}")

    def resumed(self, draw, keys, way, ranks):
        """The result of a run that is interrupted behind a step and goes on in the second of two ways."""
        stop = draw.randint(1, keys["run.steps"] - 1)
        saved = {"checkpoint.directory": "saved", "checkpoint.every": stop, "checkpoint.keep": 100, "checkpoint.minutes": 0}
        shutil.rmtree(self.folder / "saved", ignore_errors=True)
        (way_before, ranks_before), (way_after, ranks_after) = draw.sample([({}, 1), (way, ranks)], 2)
        if not self.train("save", {**keys, **way_before, **saved}, ranks_before):
            return None
        for checkpoint in (self.folder / "saved").glob("step-*"):
            if int(checkpoint.name[5:]) > stop:
                shutil.rmtree(checkpoint)
        return self.train("resume", {**keys, **way_after, **saved}, ranks_after, ["--resume", "saved"])

    def check(self, seed):
        draw = random.Random(seed)
        for thing in self.folder.iterdir():
            shutil.rmtree(thing) if thing.is_dir() else thing.unlink()
        keys = draw_config(draw, self.folder)
        lines = collections.defaultdict(list)
        for key, thing in keys.items():
            section, name = key.split(".")
            lines[section].append(f"{name} = {value(thing)}\n")
        (self.folder / "run.toml").write_text("".join(f"[{section}]\n{''.join(pairs)}" for section, pairs in lines.items()))
        plain = {"recompute.policy": "full", "device.threads": 1, "eps.threads": 1}
        first = self.train("plain", plain)
        if not first:
            self.counts["refused"] += 1
            return
        for _ in range(self.arguments.ways):
            way, ranks = draw_way(draw, keys, self.several, first["device_peak_bytes"])
            other = self.train(f"{ranks} processes" if ranks > 1 else "another way", way, ranks)
            if other:
                self.compare("another way", first, other)
            if draw.random() < 0.5 and keys["run.steps"] > 1:
                other = self.resumed(draw, {"run.steps": keys["run.steps"]}, way, ranks)
                if other:
                    self.compare("resumed", first, other)

    def run(self):
        end, faults, seed = time.monotonic() + 60 * self.arguments.minutes, 0, self.arguments.seed
        while time.monotonic() < end and seed < self.arguments.seed + self.arguments.configs:
            try:
                self.check(seed)
            except Fault as fault:
                faults += 1
                print(f"seed {seed}: {fault}", flush=True)
                if self.arguments.keep:
                    shutil.copytree(self.folder, self.arguments.keep / str(seed), dirs_exist_ok=True)
            seed += 1
        print(json.dumps({"configs": seed - self.arguments.seed, "faults": faults, "runs": dict(self.counts),
                          "refusals": dict(self.reasons.most_common())}, indent=1))
        return faults == 0


def main():
    parser = argparse.ArgumentParser(description="Configs drawn at random, each trained in several ways.")
    parser.add_argument("tools", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--minutes", type=float, default=60, help="end after so long")
    parser.add_argument("--configs", type=int, default=1_000_000, help="end after so many")
    parser.add_argument("--ways", type=int, default=3, help="in how many further ways each is trained")
    parser.add_argument("--seed", type=int, default=1, help="of the first config; the next has the next number")
    parser.add_argument("--keep", type=lambda name: pathlib.Path(name).resolve(), help="folder for configs and data of faults")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        return 0 if Check(arguments, pathlib.Path(place)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
