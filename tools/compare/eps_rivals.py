#!/usr/bin/env python3
"""How fast others do the parameter server's job on the host: parameters per second of one update.

  PYTHON tools/compare/eps_rivals.py deepspeed|pytorch [--parameters N] [--threads 1,2] [--rounds N]

PYTHON: of the venv that tools/compare/eps_rivals.sh makes. deepspeed: CPUAdam; pytorch: torch.optim.AdamW(fused=True).
Jobs: "whole" is what ZeRO-Offload does with a step's gradients: bf16 gradient in -> fp32 copy, step on fp32 master and
moments, fp32 master -> bf16 weight out, all parameters in one flat tensor as there; "step" is the step alone, fp32 in and
out. Jobs and threads take turns in every round; medians. Prints one JSON object per line:
{name, version, job, threads, parameters, params_per_second, gb_per_second (the bytes that the job has to move: 28 per
parameter for the step, 40 for the whole job), milliseconds [one per round]}.
"""
import argparse
import importlib.metadata
import json
import os
import statistics
import sys
import time

from needs import needs

BYTES = {"whole": 40, "step": 28}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=("deepspeed", "pytorch"))
    parser.add_argument("--parameters", type=int, default=2**27, help="default 2^27")
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}" if os.cpu_count() > 1 else "1", help="default 1 and all")
    parser.add_argument("--rounds", type=int, default=7, help="default 7")
    a = parser.parse_args()
    a.threads = [int(threads) for threads in a.threads.split(",")]
    needs("torch", *(["deepspeed"] if a.name == "deepspeed" else []))
    return a


def make_optimizer(a, torch, master):
    settings = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    if a.name == "pytorch":
        return torch.optim.AdamW([master], fused=True, **settings)
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    return DeepSpeedCPUAdam([master], adamw_mode=True, **settings)


def make_jobs(a, torch):
    """The jobs, by name, on one set of arrays."""
    master = torch.nn.Parameter(torch.empty(a.parameters).uniform_(-0.1, 0.1))
    master.grad = torch.empty(a.parameters).uniform_(-1e-3, 1e-3)
    incoming = master.grad.to(torch.bfloat16)  # as it comes from the device
    outgoing = master.detach().to(torch.bfloat16)
    optimizer = make_optimizer(a, torch, master)
    optimizer.step()

    @torch.no_grad()
    def whole():
        master.grad.copy_(incoming)
        optimizer.step()
        outgoing.copy_(master)

    whole()
    error = (outgoing.float() - master.detach()).abs().max().item()
    assert 0 < error < 1e-3, f"the weights that go out are {error} away from the master"
    return {"whole": whole, "step": optimizer.step}


def main():
    a = arguments()
    # OpenMP binds nothing, as a user's run; the pool is as large as the largest count.
    os.environ["OMP_NUM_THREADS"] = str(max(a.threads))
    import torch
    stdout, sys.stdout = sys.stdout, sys.stderr  # the libraries' greetings are no results
    torch.manual_seed(1)
    jobs = make_jobs(a, torch)
    sys.stdout = stdout
    seconds = {(job, threads): [] for job in jobs for threads in a.threads}
    for _ in range(a.rounds):
        for (job, threads), times in seconds.items():
            torch.set_num_threads(threads)
            begin = time.perf_counter()
            jobs[job]()
            times.append(time.perf_counter() - begin)
    version = importlib.metadata.version("torch" if a.name == "pytorch" else a.name)
    for (job, threads), times in seconds.items():
        rate = a.parameters / statistics.median(times)
        print(json.dumps({"name": a.name, "version": version, "job": job, "threads": threads, "parameters": a.parameters,
                          "params_per_second": rate, "gb_per_second": 1e-9 * BYTES[job] * rate,
                          "milliseconds": [round(1000 * t, 3) for t in times]}))


if __name__ == "__main__":
    main()
