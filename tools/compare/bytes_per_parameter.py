#!/usr/bin/env python3
"""Host bytes per parameter, measured: the peak of the process (VmHWM) less what does not grow with the parameters, over
their number.

  python3 tools/compare/bytes_per_parameter.py build-release/tools [--size 1b|20m] [--cases fp32,bf16,held] [--json]

Runs l2l-train for two steps on a model of 1.0B parameters (docs/benchmarks.md, "A model larger than its device": 12 to
15 GB of memory, as much on disk for a moment) with fp32 moments, with bf16 moments, and with fp32 moments and held bf16
gradients (clip = "global"). Subtracted are the contract's lines for the arena, the stash, staging (gradients and batch) and
the process itself, as l2l-plan prints them. Exit status 1 where a limit is missed or a run fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from needs import tools_folder

# Lines of the contract that are apart from what is measured, by the beginning of their names.
APART = ("gradient staging", "stash", "batch staging", "device memory", "process")
ALWAYS = APART[1:]  # held gradients need no staging
# case: settings, limit in bytes per parameter at 1b.
CASES = {
    "fp32": ({"optimizer.moments": '"fp32"', "optimizer.clip": '"none"'}, 12.05),
    "bf16": ({"optimizer.moments": '"bf16"', "optimizer.clip": '"none"'}, 8.05),
    "held": ({"optimizer.moments": '"fp32"', "optimizer.clip": '"global"'}, 14.05),
}
SHAPES = {"1b": {"layers": 79, "hidden": 1024, "heads": 16, "sequence": 512},
          "20m": {"layers": 26, "hidden": 256, "heads": 4, "sequence": 128}}

CONFIG = """
[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
sequence = {sequence}
dropout = 0.0
[data]
train = ["text"]
[batch]
micro_batch = 1
micro_batches = 2
[precision]
compute = "bf16"
[device]
kind = "host"
memory = "256MiB"
[transfer]
stash = "host"
[recompute]
policy = "full"
[checkpoint]
directory = "checkpoints"
keep = 1
[run]
steps = 2
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-train and l2l-plan")
    parser.add_argument("--size", choices=SHAPES, default="1b", help="20m: to try the script; its limits are 2%% wider")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def last_line(tool, settings, folder):
    """The JSON object on the tool's stdout."""
    words = [tool, "run.toml"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    if tool.name == "l2l-train":
        words.append("--quiet")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bytes_per_parameter.py: {' '.join(map(str, words))}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(a, case):
    settings, limit = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "text").write_text("the quick brown fox jumps over the lazy dog. " * 500)
        pathlib.Path(folder, "run.toml").write_text(CONFIG.format(**SHAPES[a.size]))
        plan = last_line(a.tools / "l2l-plan", settings, folder)
        result = last_line(a.tools / "l2l-train", settings, folder)
    apart = {line["what"]: line["bytes"] for line in plan["host"] if line["what"].startswith(APART)}
    missing = [name for name in ALWAYS if not any(what.startswith(name) for what in apart)]
    if missing:
        sys.exit(f"bytes_per_parameter.py: the contract has no line for {', '.join(missing)}")
    kept = result["host_bytes"] - sum(apart.values())
    planned = sum(line["bytes"] for line in plan["host"]) - sum(apart.values())
    # What a tensor costs beside its elements weighs more in a small model.
    limit = limit if a.size == "1b" else round(limit * 1.02, 4)
    return {"case": case, "parameters": plan["parameters"], "host_bytes": result["host_bytes"], "apart": apart,
            "bytes_per_parameter": kept / plan["parameters"], "planned": planned / plan["parameters"], "limit": limit,
            "kept": kept / plan["parameters"] <= limit}


def main():
    a = arguments()
    rows = []
    for case in a.cases.split(","):
        rows.append(row := measure(a, case))
        if not a.json:
            print(f"{case:6} {row['parameters']:,} parameters: {row['bytes_per_parameter']:.4f} bytes each (planned "
                  f"{row['planned']:.4f}, limit {row['limit']}{'' if row['kept'] else ': MISSED'}); process "
                  f"{row['host_bytes']:,}, of which apart {sum(row['apart'].values()):,}", flush=True)
    if a.json:
        print(json.dumps(rows))
    sys.exit(0 if all(row["kept"] for row in rows) else 1)


if __name__ == "__main__":
    main()
