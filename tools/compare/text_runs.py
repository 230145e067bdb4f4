"""Byte-level GPTs trained in several variants on the same text with several seeds, and their validation losses compared: what
moments.py and reversible.py have in common.

The runs of one seed have the same first weights and the same batches. Differences are taken seed by seed. Finished runs are
kept in a folder, so that an interrupted comparison goes on where it was; a run whose config or text has changed is done again.
A variant is inside the spread when the mean of its differences is no larger than the standard deviation of the first variant's
own losses over the seeds.
"""
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

from machine import print_header
from needs import tools_folder

LICENCES = pathlib.Path("/usr/share/common-licenses")

# The end of a config: where a run takes place, and how long it is.
RUN = """[device]
kind = "host"
threads = {threads}
[eps]
threads = {threads}
[checkpoint]
keep = 1
[run]
steps = {steps}
seed = {seed}
"""


def add_arguments(parser, folder, steps):
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-train")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(folder))
    parser.add_argument("--json", action="store_true")


def seeds_of(a):
    return [int(seed) for seed in a.seeds.split(",")]


def write_text(files, data):
    """Fills data/train and data/validation afresh. Returns a hash of it all."""
    shutil.rmtree(data, ignore_errors=True)
    for part in ("train", "validation"):
        (data / part).mkdir(parents=True)
    if files:
        for number, file in enumerate(files):
            text = file.read_bytes()
            cut = len(text) - len(text) // 10
            (data / f"train/{number:04}").write_bytes(text[:cut])
            (data / f"validation/{number:04}").write_bytes(text[cut:])
    else:
        for file in sorted(LICENCES.iterdir()):
            if file.is_file() and not file.is_symlink():
                shutil.copyfile(file, data / ("validation" if file.name == "Apache-2.0" else "train") / file.name)
    digest = hashlib.sha256()
    for file in sorted(data.rglob("*")):
        if file.is_file():
            digest.update(file.relative_to(data).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def train(a, name, config):
    """The run's last line, with its training losses (the mean of each tenth of the steps) and the largest drift."""
    run = a.folder / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    (run / "run.toml").write_text(config)
    done = subprocess.run([a.tools / "l2l-train", "run.toml", "--quiet", "--metrics", "metrics.jsonl"], cwd=run,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]  # the others are of validations
    losses = [step["loss"] for step in steps]
    tenth = max(1, len(losses) // 10)
    result = json.loads(done.stdout.splitlines()[-1])
    shutil.rmtree(run)  # the checkpoints with it
    keep = ("steps", "loss", "validation_loss", "tokens_per_second", "device_peak_bytes", "host_bytes", "weights_hash")
    return {key: result[key] for key in keep} | {
        "curve": [statistics.fmean(losses[i:i + tenth]) for i in range(0, tenth * (len(losses) // tenth), tenth)],
        "drift": max((step["stream_drift"] for step in steps if "stream_drift" in step), default=None)}


def result_of(a, name, config, text):
    """Of the run that was made before with the same config and text, else of a new one."""
    file = a.folder / f"{name}.json"
    if file.exists():
        before = json.loads(file.read_text())
        if before["config"] == config and before["text"] == text:
            return before["result"]
    print(f"{name}: {a.steps} steps", file=sys.stderr, flush=True)
    result = train(a, name, config)
    if "error" not in result:
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps({"config": config, "text": text, "result": result}))
        partial.rename(file)
    return result


def run_all(a, variants, name_of, config_of):
    """{variant: {seed: result}}, behind the header of the table. Ends the program when a run fails."""
    print_header(a.tools / "l2l-train", json=a.json)
    a.folder.mkdir(parents=True, exist_ok=True)
    text = write_text(a.files, a.folder / "data")
    runs = {variant: {} for variant in variants}
    for seed in seeds_of(a):  # all variants of a seed before the next, so that an interrupted comparison can be read
        for variant in variants:
            runs[variant][seed] = result = result_of(a, name_of(variant, seed), config_of(variant, seed), text)
            if "error" in result:
                sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {variant}, seed {seed}: {result['error']}")
    return runs


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def compare(runs):
    """{variant: figures}, of run_all(); the first variant is what the others are compared with."""
    losses = {name: [result["validation_loss"] for result in by_seed.values()] for name, by_seed in runs.items()}
    first = next(iter(losses.values()))
    rows = {}
    for name, own in losses.items():
        differences = [loss - reference for loss, reference in zip(own, first)]
        rows[name] = {
            "validation_loss": own, "mean": statistics.fmean(own), "deviation": deviation(own),
            "differences": differences, "mean_difference": statistics.fmean(differences),
            "difference_deviation": deviation(differences),
            "inside_spread": abs(statistics.fmean(differences)) <= deviation(first)}
    return rows


def show(title, what, rows):
    print(f"{title}; validation loss in nats per byte")
    print(f"{what:12} {'mean':>8} {'deviation':>10}   {'to ' + next(iter(rows)) + ', mean':>14} {'deviation':>10}   "
          f"{'seed by seed':24} inside the spread")
    for name, row in rows.items():
        seeds = " ".join(f"{difference:+.4f}" for difference in row["differences"])
        print(f"{name:12} {row['mean']:8.4f} {row['deviation']:10.4f}   {row['mean_difference']:+14.4f} "
              f"{row['difference_deviation']:10.4f}   {seeds:24} {'yes' if row['inside_spread'] else 'no'}")


def curves(runs):
    return {name: {seed: run["curve"] for seed, run in by_seed.items()} for name, by_seed in runs.items()}
