#!/usr/bin/env python3
"""Recomputation policies on the host device: step times against their predictions, and "auto" against every fixed policy.

    recompute_check.py FOLDER_OF_THE_TOOLS [--rounds N] [--pairs N] [--steps N] [--limits] [--skip-predictions]

First, each fixed policy with the stash on either side: `l2l-plan --check`, predicted over measured. Then two links
(as fast as memory; throttled), five limits of device.memory each, from the least that a run needs to what keeping all
values takes: `l2l-bench step` of all fixed policies and places of the stash that fit, one process at a time, in
rounds; the best one is the one of the least median. Unless "auto" does the same work as the best one, by l2l-plan,
both then run in pairs, each first in every other one, until the median of their ratio is known to be on one side of
1.02 (with 95%, by the order of the pairs' ratios), or --pairs were run. Predicted times of "auto" must not rise with
memory. Prints tables and, as the last line, one JSON object; with --limits exit status 1 when a prediction is off by
more than 10%, or "auto" is surely slower than the best by more than 2%. Use an idle machine: on a busy one few rows
are decided.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

POLICIES = ("full", "min_cut", "none")
PLACES = ("host", "device")
BASE = {"model.layers": 4, "model.hidden": 256, "model.heads": 4, "model.sequence": 256, "model.dropout": 0.1, "device.kind": "host",
        "precision.compute": "bf16", "batch.micro_batch": 2, "batch.micro_batches": 3}
LINKS = {"link as fast as memory": {}, "link of 500 MB/s": {"transfer.link_bandwidth": "500MB"}}
BUDGETS = 5
LIMIT = 1.02  # of "auto" over the best


def words_of(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


class Tools:
    def __init__(self, tools, folder):
        self.tools, self.folder, self.calibration = tools.resolve(), folder, folder / "calibration.json"
        (folder / "run.toml").write_text("")

    def run(self, program, settings, *words):
        done = subprocess.run([self.tools / program[0], *program[1:], self.folder / "run.toml", *words_of(settings), *words],
                              capture_output=True, text=True, cwd=self.folder, check=False,
                              env=os.environ | {"L2L_CALIBRATION": str(self.calibration)})
        if done.returncode == 2:
            return None
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def plan(self, settings, *words):
        return self.run(["l2l-plan"], settings, *words)

    def check(self, settings):
        """All measured anew."""
        self.calibration.unlink(missing_ok=True)
        return self.plan(settings, "--check")

    def step_ms(self, settings, steps):
        return self.run(["l2l-bench", "step"], settings, "--steps", str(steps), "--json")["step_ms"]


def check_predictions(tools):
    print(f"{'policy, stash':20} {'predicted':>10} {'measured':>10} {'ratio':>7}")
    errors = []
    for policy in POLICIES:
        for place in PLACES:
            settings = BASE | {"recompute.policy": policy, "transfer.stash": place}
            times = [tools.check(settings)["time"] for _ in range(3)]
            ratio = statistics.median(time["step_ms"] / time["measured_ms"] for time in times)
            errors.append(abs(ratio - 1))
            print(f"{policy + ', ' + place:20} {statistics.median(t['step_ms'] for t in times):10.2f} "
                  f"{statistics.median(t['measured_ms'] for t in times):10.2f} {ratio:7.3f}", flush=True)
    return errors


def candidates(tools, base):
    """Fixed policies and places, with their plans."""
    found = {}
    for policy in POLICIES:
        for place in PLACES:
            settings = base | {"recompute.policy": policy, "transfer.stash": place}
            found[f"{policy}, {place}"] = (settings, tools.plan(settings, "--no-measure"))
    return found


def interval(ratios):
    """Where the median of such ratios is, with 95%; all of the line when there are too few."""
    count = len(ratios)
    outside, left_out = 0, -1  # of each tail: its probability, and how many ratios it holds
    while outside <= 0.025 and left_out < count // 2:
        left_out += 1
        outside += math.comb(count, left_out) / 2**count
    return (sorted(ratios)[left_out - 1], sorted(ratios)[count - left_out]) if left_out > 0 else (0, math.inf)


def pairs(tools, first, second, arguments):
    """Step times of both, run in turn, and the interval of their ratio."""
    times = ([], [])
    for pair in range(arguments.pairs):
        for which in ((0, 1) if pair % 2 == 0 else (1, 0)):
            times[which].append(tools.step_ms((first, second)[which], arguments.steps))
        low, high = interval([a / b for a, b in zip(*times)])
        if low > LIMIT or high <= LIMIT:
            break
    return times, (low, high)


def compare(tools, link, base, arguments):
    fixed = candidates(tools, base)
    needs = [plan["device_bytes"] for _, plan in fixed.values()]
    budgets = [round(min(needs) * (max(needs) / min(needs)) ** (i / (BUDGETS - 1))) for i in range(BUDGETS)]
    rows, last = [], None
    for budget in budgets:
        auto = base | {"recompute.policy": "auto", "device.memory": budget}
        plan = tools.plan(auto, "--check")
        contenders = {name: settings for name, (settings, its) in fixed.items() if its["device_bytes"] <= budget}
        times = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name, settings in contenders.items():
                times[name].append(tools.step_ms(settings, arguments.steps))
        best = min(times, key=lambda name: statistics.median(times[name]))
        same = plan["time"]["work"] == fixed[best][1]["time"]["work"]
        if same:
            times["auto"], known = times[best], (1, 1)
        else:
            (times["auto"], times[best]), known = pairs(tools, auto, contenders[best], arguments)
        ratio = statistics.median(a / b for a, b in zip(times["auto"], times[best]))
        rises = last is not None and plan["time"]["step_ms"] > 1.02 * last
        last = plan["time"]["step_ms"]
        rows.append({"link": link, "budget": budget, "auto_ms": statistics.median(times["auto"]), "best": best,
                     "best_ms": statistics.median(times[best]), "ratio": ratio, "interval": known, "predicted_ms": last, "rises": rises})
        print(f"{link:24} {budget / 2**20:7.1f} MiB  auto {rows[-1]['auto_ms']:7.2f} (predicted {last:7.2f})  best of "
              f"{len(contenders)}: {best:16} {rows[-1]['best_ms']:7.2f}  auto / best {'the same work' if same else f'{ratio:.3f} ({known[0]:.3f} to {known[1]:.3f})'}   "
              f"{plan['blocks_stashed_on_device']} stashes and {plan['resident_layers']} weights on the device; "
              + "; ".join(line.split(":")[1].strip() for line in plan["recomputation"] if line.startswith("saved values")), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=25, help="at most")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--skip-predictions", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        tools = Tools(arguments.tools, pathlib.Path(name))
        errors = [] if arguments.skip_predictions else check_predictions(tools)
        rows = [row for link, more in LINKS.items() for row in compare(tools, link, BASE | more, arguments)]
    slower = sum(row["interval"][0] > LIMIT for row in rows)
    good = max(errors, default=0) <= 0.10 and slower == 0 and not any(row["rises"] for row in rows)
    print(json.dumps({"worst_prediction": max(errors, default=None), "worst_auto": max(row["ratio"] for row in rows),
                      "slower": slower, "undecided": sum(row["interval"][0] <= LIMIT < row["interval"][1] for row in rows),
                      "rises": sum(row["rises"] for row in rows), "good": good}))
    return 1 if arguments.limits and not good else 0


if __name__ == "__main__":
    sys.exit(main())
