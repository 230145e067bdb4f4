#!/usr/bin/env python3
"""The parameter server's update against DeepSpeed's CPUAdam and PyTorch's fused AdamW on the same job: bf16 gradients in,
bf16 weights out, fp32 master weights.

  python3 tools/compare/eps.py build-release/tools --python PYTHON [--rivals deepspeed,pytorch] [--parameters N]
      [--threads 1,2] [--rounds N] [--limits] [--json]

PYTHON: what tools/compare/eps_rivals.sh prints. A round runs `l2l-bench eps` (split master, AdamW, one contribution; fp32
and bf16 moments), CPUAdam, and `l2l-bench eps` and fused AdamW, one process at a time: each rival is compared with the run
of ours beside it. Before the first round each rival makes a small update, so that one that does not run is told at once.
The table gives medians over the rounds, and the range of the ratio ours / rival. Rivals' moments are fp32. 128M parameters
take 3 to 6 GB. Exit status 1 when a ratio is below the limit that --limits asks for: 2.2 over DeepSpeed with fp32 moments,
3.3 with bf16 moments, 1.8 over PyTorch with fp32 moments, with as many threads as there are.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from machine import print_header
from needs import fail, tools_folder

RIVALS = ("deepspeed", "pytorch")
MOMENTS = ("fp32", "bf16")
LIMITS = {("deepspeed", "fp32"): 2.2, ("deepspeed", "bf16"): 3.3, ("pytorch", "fp32"): 1.8}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tools", type=tools_folder, help="folder of l2l-bench")
    parser.add_argument("--python", required=True, help="python3 with DeepSpeed and PyTorch")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="default deepspeed,pytorch; leave out one that does not run")
    parser.add_argument("--parameters", type=int, default=2**27, help="default 2^27")
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, os.cpu_count()}))), help="default 1 and all")
    parser.add_argument("--rounds", type=int, default=3, help="default 3; each takes medians of seven updates")
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    a.rivals = a.rivals.split(",")
    if unknown := set(a.rivals) - set(RIVALS):
        parser.error(f"--rivals: unknown {', '.join(sorted(unknown))}")
    a.counts = [int(threads) for threads in a.threads.split(",")]
    return a


def start(words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def run(words):
    done = start(words)
    if done.returncode:
        sys.exit(f"eps.py: {' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(a):
    """{(moments, threads): parameters per second}"""
    [result] = run([a.tools / "l2l-bench", "eps", "--json", "--only", "adamw bf16", "--contributions", 1,
                    "--parameters", a.parameters, "--rounds", 7, "--threads", a.threads])
    rates = {(row["moments"], row["threads"]): row["params_per_second"] for row in result["rows"] if row["kind"] == "kernel"}
    return {(moments, threads): rates[moments, threads] for moments in MOMENTS for threads in a.counts}


def command_of(a, name, parameters, threads, rounds):
    script = pathlib.Path(__file__).with_name("eps_rivals.py")
    return [a.python, script, name, "--parameters", parameters, "--threads", threads, "--rounds", rounds]


def version_of(a, name):
    """Of the rival, which makes a small update. Ends the program where it does not."""
    try:
        done = start(command_of(a, name, 2**10, 1, 1))
    except OSError as error:
        fail(f"--python: {a.python}: {error.strerror}")
    if done.returncode:
        fail(f"{name} does not run in {a.python} (--rivals leaves it out): {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])["version"]


def rival(a, name):
    """{(job, threads): parameters per second}"""
    rows = run(command_of(a, name, a.parameters, a.threads, 7))
    return {(row["job"], row["threads"]): row["params_per_second"] for row in rows}


def measure(a):
    """One dictionary per round: {rival: (our rates, the rival's)}"""
    rounds = []
    for _ in range(a.rounds):
        rounds.append({name: (ours(a), rival(a, name)) for name in a.rivals})
        print(f"round {len(rounds)} of {a.rounds} is done", file=sys.stderr, flush=True)
    return rounds


def summarise(a, rounds):
    own = {f"{moments} {threads}": statistics.median(r[name][0][moments, threads] for r in rounds for name in a.rivals)
           for moments in MOMENTS for threads in a.counts}
    rows = []
    for name in a.rivals:
        for threads in a.counts:
            row = {"rival": name, "threads": threads}
            for job in ("whole", "step"):
                row[job] = statistics.median(r[name][1][job, threads] for r in rounds)
            for moments in MOMENTS:
                ratios = sorted(r[name][0][moments, threads] / r[name][1]["whole", threads] for r in rounds)
                row[f"ratio_{moments}"] = {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]}
            rows.append(row)
    return {"parameters": a.parameters, "rounds": a.rounds, "l2l": own, "rivals": rows}


def show(a, summary):
    print(f"one update of {a.parameters:,} parameters, billions per second; bf16 gradient in, bf16 weight out")
    for threads in a.counts:
        print(f"  L2L, split master, {threads} thread(s): fp32 moments {1e-9 * summary['l2l'][f'fp32 {threads}']:.3f}, "
              f"bf16 moments {1e-9 * summary['l2l'][f'bf16 {threads}']:.3f}")
    print(f"  {'rival':10} {'threads':>7} {'whole job':>10} {'step alone':>11}   {'L2L fp32 moments / it':24} L2L bf16 moments / it")
    for row in summary["rivals"]:
        ratios = [f"{r['median']:.2f} ({r['least']:.2f} to {r['most']:.2f})" for r in (row["ratio_fp32"], row["ratio_bf16"])]
        print(f"  {row['rival']:10} {row['threads']:7} {1e-9 * row['whole']:10.3f} {1e-9 * row['step']:11.3f}   {ratios[0]:24} {ratios[1]}")


def missed(a, summary):
    """Limits that the medians do not reach, with all threads."""
    rows = {row["rival"]: row for row in summary["rivals"] if row["threads"] == max(a.counts)}
    return [f"{name}, {moments} moments: {rows[name][f'ratio_{moments}']['median']:.2f} < {limit}"
            for (name, moments), limit in LIMITS.items() if name in rows and rows[name][f"ratio_{moments}"]["median"] < limit]


def main():
    a = arguments()
    print_header(a.tools / "l2l-bench", *(f"{name} {version_of(a, name)}" for name in a.rivals), json=a.json)
    summary = summarise(a, measure(a))
    if a.json:
        print(json.dumps(summary))
    else:
        show(a, summary)
    below = missed(a, summary) if a.limits else []
    if below:
        sys.exit("eps.py: below the limit: " + "; ".join(below))


if __name__ == "__main__":
    main()
