#!/usr/bin/env python3
"""What it costs to train on several processes of one machine instead of one: the same minibatch, the same cores.

  python3 tools/compare/ranks.py BUILD [--ranks 2] [--rounds 5]     BUILD: a build folder with l2l-train; needs mpirun

One process with as many threads against that many processes with one thread each, in turn, on the host device: the median of
the steps of each run but its first two, and over the rounds the median ratio. 2,048 tokens for each process and step.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from machine import print_header
from needs import fail

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mpi_surroundings import SURROUNDINGS  # noqa: E402

CONFIG = """
[model]
layers = 6
hidden = 512
heads = 8
sequence = 512
vocabulary = 4096
[data]
train = ["text"]
[batch]
micro_batch = 4
micro_batches = {ranks}
[recompute]
policy = "full"
[run]
steps = 10
[device]
kind = "host"
"""


def step_ms(folder, command, settings):
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    words = [word for setting in settings for word in ("--set", setting)]
    subprocess.run([*command, "run.toml", "--quiet", "--metrics", metrics, *words], cwd=folder, check=True, capture_output=True,
                   env={**os.environ, **SURROUNDINGS})
    return statistics.median(json.loads(line)["step_ms"] for line in metrics.read_text().splitlines()[2:] if '"step_ms"' in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    train = (chosen.build / "tools/l2l-train").resolve()
    if not shutil.which("mpirun"):
        fail("needs mpirun, of Open MPI")
    print_header(train)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "text").write_text("the quick brown fox jumps over the lazy dog. " * 2000)
        (folder / "run.toml").write_text(CONFIG.format(ranks=chosen.ranks))
        print("compute   one process   processes   ratio (median of rounds)")
        for compute in ("fp32", "bf16"):
            one, several = [], []
            for _ in range(chosen.rounds):
                kind, threads = f'precision.compute="{compute}"', chosen.ranks
                one.append(step_ms(folder, [train], [kind, f"device.threads={threads}", f"eps.threads={threads}"]))
                several.append(step_ms(folder, ["mpirun", "-n", str(chosen.ranks), train], [kind, "device.threads=1", "eps.threads=1"]))
            ratio = statistics.median(b / a for a, b in zip(one, several))
            print(f"{compute}      {statistics.median(one):8.1f} ms {statistics.median(several):8.1f} ms   {ratio:.3f}")


if __name__ == "__main__":
    main()
