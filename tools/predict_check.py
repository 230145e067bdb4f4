#!/usr/bin/env python3
"""Predicted against measured step time: l2l-plan, then l2l-train, for thirty configs of the host device.

    predict_check.py FOLDER_OF_THE_TOOLS [--only SUBSTRING] [--every N] [--rounds N] [--steps N] [--median 0.05]
                     [--worst 0.15]

In each round every config is predicted, in a calibration file of its own, and trained right after that; what counts
are the medians of the rounds, since a machine is not always equally fast. Prints a table and, as its last line, one
JSON object; exit status 1 when the median or the worst error exceeds its limit. Use an idle machine.
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

BASE = {"model.heads": 4, "model.dropout": 0, "device.kind": "host", "run.steps": 100}


def config(layers, hidden, sequence, micro_batch, micro_batches, **more):
    settings = dict(BASE, **{"model.layers": layers, "model.hidden": hidden, "model.sequence": sequence,
                             "batch.micro_batch": micro_batch, "batch.micro_batches": micro_batches})
    settings.update({key.replace("__", "."): value for key, value in more.items()})
    return settings


BF16 = {"precision__compute": "bf16"}
HOST = {"transfer__stash": "host"}
GLOBAL = {"optimizer__clip": "global"}
CONFIGS = [
    config(2, 256, 128, 4, 1), config(2, 512, 128, 2, 1, **BF16), config(4, 128, 256, 2, 2), config(4, 128, 64, 2, 4, **HOST),
    config(4, 256, 256, 2, 2, **BF16), config(4, 384, 128, 2, 1), config(4, 512, 128, 2, 2, **BF16, **HOST), config(4, 512, 64, 1, 1),
    config(4, 768, 128, 1, 1), config(4, 768, 128, 2, 2, **BF16), config(6, 256, 128, 4, 2), config(6, 256, 128, 4, 2, **GLOBAL),
    config(6, 384, 64, 4, 1, optimizer__name="lamb"), config(6, 512, 64, 2, 1, **BF16, **GLOBAL), config(8, 64, 128, 8, 2),
    config(8, 128, 128, 4, 4, **BF16), config(8, 256, 64, 2, 1, optimizer__name="sgd"), config(8, 256, 128, 2, 2, **HOST),
    config(8, 256, 128, 2, 2, device__execution="resident"), config(8, 384, 128, 2, 1, **BF16, **HOST), config(8, 512, 32, 1, 1, **BF16),
    config(12, 64, 256, 4, 1), config(12, 128, 128, 4, 1, **GLOBAL), config(12, 256, 64, 4, 1, **BF16),
    config(12, 256, 128, 1, 4, **HOST, **GLOBAL), config(12, 384, 32, 2, 1), config(16, 128, 64, 4, 2, **BF16, **HOST),
    config(16, 256, 64, 2, 2, model__architecture="llama"), config(24, 128, 128, 2, 1), config(24, 256, 64, 1, 2, **BF16, **HOST),
]


def name_of(settings):
    short = {"precision.compute": "", "transfer.stash": "stash ", "optimizer.clip": "clip ", "optimizer.name": "",
             "device.execution": "", "model.architecture": ""}
    batch = f"{settings['batch.micro_batches']}x{settings['batch.micro_batch']}x{settings['model.sequence']}"
    extras = [prefix + str(settings[key]) for key, prefix in short.items() if key in settings]
    return " ".join([f"{settings['model.layers']}x{settings['model.hidden']}", batch] + extras)


class Check:
    def __init__(self, tools, folder, steps):
        self.tools, self.folder, self.steps = tools, folder, steps
        self.environment = dict(os.environ, L2L_CALIBRATION=str(folder / "calibration.json"))
        words = "the quick brown fox jumps over the lazy dog and runs away from twelve hungry wolves ".split()
        text = " ".join(words[(i * i + i // 7) % len(words)] for i in range(60000))
        (folder / "text").write_text(text)
        (folder / "run.toml").write_text("")

    def run(self, tool, settings, *arguments):
        sets = []
        for key, value in settings.items():
            sets += ["--set", f"{key}={value}"]
        sets += ["--set", f"data.train=[\"{self.folder / 'text'}\"]", "--set", f"checkpoint.directory={self.folder / 'saved'}"]
        return subprocess.run([self.tools / tool, self.folder / "run.toml", *sets, *arguments], env=self.environment,
                              capture_output=True, text=True, check=True, cwd=self.folder).stdout

    def plan(self, settings):
        (self.folder / "calibration.json").unlink(missing_ok=True)
        return json.loads(self.run("l2l-plan", settings))["time"]

    def measure(self, settings):
        """Median of the later half of the steps."""
        metrics = self.folder / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        self.run("l2l-train", settings, "--quiet", "--steps", str(self.steps), "--metrics", str(metrics))
        times = [json.loads(line)["step_ms"] for line in metrics.read_text().splitlines()]
        return statistics.median(times[max(2, len(times) // 3):])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--median", type=float, default=0.05)
    parser.add_argument("--worst", type=float, default=0.15)
    arguments = parser.parse_args()
    configs = [settings for settings in CONFIGS if arguments.only in name_of(settings)][::arguments.every]
    errors, begin = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        check = Check(arguments.tools.resolve(), pathlib.Path(folder), arguments.steps)
        plans = [[] for _ in configs]
        steps = [[] for _ in configs]
        for _ in range(arguments.rounds):
            for i, settings in enumerate(configs):
                plans[i].append(check.plan(settings))
                steps[i].append(check.measure(settings))
    print(f"{'layers x hidden, batch':44} {'predicted':>10} {'measured':>10} {'ratio':>7}  {'their spread':13} bound")
    for settings, of_plan, of_steps in zip(configs, plans, steps):
        bound = of_plan[0]["bound"]
        of_plan = [plan["step_ms"] for plan in of_plan]
        predicted, measured = statistics.median(of_plan), statistics.median(of_steps)
        errors.append(abs(predicted / measured - 1))
        spread = [(max(times) - min(times)) / statistics.median(times) for times in (of_plan, of_steps)]
        print(f"{name_of(settings):44} {predicted:10.2f} {measured:10.2f} {predicted / measured:7.3f}"
              f"  {spread[0]:6.0%} {spread[1]:6.0%} {bound}", flush=True)
    median, worst = statistics.median(errors), max(errors)
    good = median <= arguments.median and worst <= arguments.worst
    print(json.dumps({"configs": len(errors), "median_error": median, "worst_error": worst, "good": good,
                      "seconds": time.monotonic() - begin}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
