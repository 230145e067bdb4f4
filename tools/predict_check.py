#!/usr/bin/env python3
"""Predicted against measured step time: `l2l-plan --check` for thirty configs of the host device.

    predict_check.py FOLDER_OF_THE_TOOLS [--only SUBSTRING] [--every N] [--rounds N] [--median 0.05] [--worst 0.15]

A round goes through all configs; each is predicted from pieces that are measured anew, and trained in turn with the
shallower model that the prediction rests on. The error of a config is that of its median ratio over the rounds, since
a machine is not always equally fast; one that is off by more than half of the worst limit is checked twice more. Prints a table and, as its last line, one JSON object; exit status 1 when the
median or the worst error exceeds its limit. Use an idle machine.
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

BASE = {"model.heads": 4, "model.dropout": 0, "precision.compute": "fp32", "device.kind": "host"}


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


def check(tools, folder, settings):
    """Predicted and measured ms, and the bound."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    calibration = folder / "calibration.json"  # each check measures anew
    calibration.unlink(missing_ok=True)
    done = subprocess.run([tools / "l2l-plan", folder / "run.toml", *sets, "--check"], capture_output=True, text=True,
                          check=True, cwd=folder, env=os.environ | {"L2L_CALIBRATION": str(calibration)})
    time = json.loads(done.stdout)["time"]
    return time["step_ms"], time["measured_ms"], time["bound"]


def ratio_of(checks):
    return statistics.median(predicted / measured for predicted, measured, _ in checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--median", type=float, default=0.05)
    parser.add_argument("--worst", type=float, default=0.15)
    arguments = parser.parse_args()
    configs = [settings for settings in CONFIGS if arguments.only in name_of(settings)][::arguments.every]
    errors, begin = [], time.monotonic()
    found = [[] for _ in configs]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "run.toml").write_text('[recompute]\npolicy = "full"\n')
        for _ in range(arguments.rounds):
            for of_config, settings in zip(found, configs):
                of_config.append(check(arguments.tools.resolve(), folder, settings))
        for of_config, settings in zip(found, configs):
            if abs(ratio_of(of_config) - 1) > arguments.worst / 2:
                of_config += [check(arguments.tools.resolve(), folder, settings) for _ in range(2)]
    print(f"{'layers x hidden, batch':44} {'predicted':>10} {'measured':>10} {'ratio':>7}  (range)         bound")
    for settings, of_config in zip(configs, found):
        predicted, measured = (statistics.median(row[k] for row in of_config) for k in range(2))
        ratios = sorted(row[0] / row[1] for row in of_config)
        ratio = ratio_of(of_config)
        errors.append(abs(ratio - 1))
        print(f"{name_of(settings):44} {predicted:10.2f} {measured:10.2f} {ratio:7.3f}"
              f"  ({ratios[0]:.3f} - {ratios[-1]:.3f}) {of_config[0][2]}", flush=True)
    median, worst = statistics.median(errors), max(errors)
    good = median <= arguments.median and worst <= arguments.worst
    print(json.dumps({"configs": len(errors), "median_error": median, "worst_error": worst, "good": good,
                      "seconds": time.monotonic() - begin}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
