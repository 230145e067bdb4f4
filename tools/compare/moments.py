#!/usr/bin/env python3
"""What smaller moments cost in accuracy: trains the same byte-level GPT with each format of the moments, and compares the
validation losses with those of fp32 moments.

  python3 tools/compare/moments.py build-release/tools [FILE...] [--moments fp32,bf16_first,bf16,int8] [--seeds 1,2,3]
      [--steps N] [--optimizer adamw|lamb] [--threads N] [--folder FOLDER] [--json]

FILE: text; the last tenth of each is held out. Default: the licences that every Debian and Ubuntu has, Apache-2.0 held out
(as in tools/quickstart.sh): 0.2 MB, which a run of 2,000 steps reads nine times; give a few megabytes for less.
The runs of one seed have the same first weights and the same batches. Differences are taken seed by seed. Finished runs are
kept in FOLDER (default runs/moments), so that an interrupted comparison goes on where it was; a run whose config or text has
changed is done again. A format is inside the spread when the mean of its differences is no larger than the standard
deviation of fp32's own losses over the seeds. Exit status 1 when a run failed.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

LICENCES = pathlib.Path("/usr/share/common-licenses")

CONFIG = """
[model]
architecture = "gpt2"
layers = 4
hidden = 128
heads = 4
sequence = 128
dropout = 0.0
[data]
format = "text"
train = ["{data}/train/*"]
validation = ["{data}/validation/*"]
[batch]
micro_batch = 4
micro_batches = 2
[optimizer]
name = "{optimizer}"
learning_rate = {learning_rate}
betas = [0.9, 0.95]
weight_decay = 0.1
clip = "global"
max_norm = 1.0
{moments}
[schedule]
kind = "cosine"
warmup_steps = {warmup}
minimum = 1e-4
[precision]
compute = "bf16"
[device]
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=pathlib.Path, help="folder of l2l-train")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--moments", default="fp32,bf16_first,bf16,int8")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--optimizer", choices=("adamw", "lamb"), default="adamw")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/moments"))
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    a.moments, a.seeds = a.moments.split(","), [int(seed) for seed in a.seeds.split(",")]
    if a.moments[0] != "fp32":
        parser.error("--moments: begins with fp32, which the others are compared with")
    return a


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


def config_of(a, moments, seed):
    return CONFIG.format(
        data=(a.folder / "data").resolve(), optimizer=a.optimizer, threads=a.threads, steps=a.steps, seed=seed,
        learning_rate={"adamw": 1e-3, "lamb": 1e-2}[a.optimizer], warmup=a.steps // 20 + 1,
        moments="" if moments == "fp32" else f'moments = "{moments}"')


def train(a, name, config):
    """The run's last line, with its training losses: the mean of each tenth of the steps."""
    run = a.folder / name
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    (run / "run.toml").write_text(config)
    done = subprocess.run([a.tools.resolve() / "l2l-train", "run.toml", "--quiet", "--metrics", "metrics.jsonl"], cwd=run,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    losses = [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    tenth = max(1, len(losses) // 10)
    result = json.loads(done.stdout.splitlines()[-1])
    shutil.rmtree(run)  # the checkpoints with it
    keep = ("steps", "loss", "validation_loss", "tokens_per_second", "host_bytes", "weights_hash")
    return {key: result[key] for key in keep} | {
        "curve": [statistics.fmean(losses[i:i + tenth]) for i in range(0, tenth * (len(losses) // tenth), tenth)]}


def result_of(a, moments, seed, text):
    """Of the run that was made before with the same config and text, else of a new one."""
    name, config = f"{a.optimizer}-{moments}-{seed}", config_of(a, moments, seed)
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


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def compare(runs, moments):
    """{moments: figures}, of complete {moments: {seed: result}}."""
    losses = {name: [runs[name][seed]["validation_loss"] for seed in runs[name]] for name in moments}
    spread = deviation(losses["fp32"])
    rows = {}
    for name in moments:
        differences = [loss - reference for loss, reference in zip(losses[name], losses["fp32"])]
        rows[name] = {
            "validation_loss": losses[name], "mean": statistics.fmean(losses[name]), "deviation": deviation(losses[name]),
            "differences": differences, "mean_difference": statistics.fmean(differences),
            "difference_deviation": deviation(differences), "inside_spread": abs(statistics.fmean(differences)) <= spread}
    return rows


def show(a, rows):
    print(f"{a.optimizer}, {a.steps} steps of 1,024 bytes, seeds {', '.join(map(str, a.seeds))}; validation loss in nats per byte")
    print(f"{'moments':12} {'mean':>8} {'deviation':>10}   {'to fp32, mean':>14} {'deviation':>10}   {'seed by seed':24} inside the spread")
    for name, row in rows.items():
        seeds = " ".join(f"{difference:+.4f}" for difference in row["differences"])
        print(f"{name:12} {row['mean']:8.4f} {row['deviation']:10.4f}   {row['mean_difference']:+14.4f} "
              f"{row['difference_deviation']:10.4f}   {seeds:24} {'yes' if row['inside_spread'] else 'no'}")


def main():
    a = arguments()
    a.folder.mkdir(parents=True, exist_ok=True)
    text = write_text(a.files, a.folder / "data")
    runs = {name: {} for name in a.moments}
    for seed in a.seeds:  # all formats of a seed before the next, so that an interrupted comparison can be read
        for name in a.moments:
            runs[name][seed] = result = result_of(a, name, seed, text)
            if "error" in result:
                sys.exit(f"moments.py: {name}, seed {seed}: {result['error']}")
    rows = compare(runs, a.moments)
    if a.json:
        print(json.dumps({"steps": a.steps, "seeds": a.seeds, "optimizer": a.optimizer, "rows": rows,
                          "curves": {name: {seed: run["curve"] for seed, run in by_seed.items()} for name, by_seed in runs.items()}}))
    else:
        show(a, rows)


if __name__ == "__main__":
    main()
