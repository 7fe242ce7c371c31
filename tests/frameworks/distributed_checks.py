# SPDX-License-Identifier: Apache-2.0
"""PyTorch on all GPUs that there are, a process each (tests/bench/applications/distributed.py), and NCCL with no framework. (How to run them:
checks.py.)"""
import json
import pathlib
import subprocess
import sys

import torch

from checks import Skipped, check, main

APPLICATIONS = pathlib.Path(__file__).resolve().parents[1] / "bench/applications"
GPUS = torch.cuda.device_count()


def rows(ranks, *words):
    """What rank 0 tells, a dictionary for each line."""
    done = subprocess.run([sys.executable, "-B", str(APPLICATIONS / "ranks.py"), "--ranks", str(ranks), "--limit", "100", str(APPLICATIONS / words[0]), *words[1:]],
                          capture_output=True, text=True, timeout=115)
    if done.returncode == 77:
        raise Skipped((done.stderr.strip().splitlines() or ["nothing to show"])[-1])
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = [row["failed"] for row in told if "failed" in row]
    if failed or done.returncode:
        raise RuntimeError(f"{failed or done.returncode}: {done.stderr.strip()[-400:]}")
    return told


def result(name):
    told = [row["result"] for row in rows(GPUS, "distributed.py", name) if "result" in row]
    if not told:
        raise Skipped("left out")
    return told[0]


def wrong(ranks, *words):
    """How many results are wrong, and of how many."""
    told = rows(ranks, "collectives.py", "--quick", *words)
    return [next(row["value"] for row in told if row["metric"].endswith("_wrong")), len(told)]


@check
def ddp_all_gpus():
    return result("ddp_step")


@check
def fsdp_all_gpus():
    return result("fsdp_step")


@check
def tensor_parallel_all_gpus():
    return result("tensor_parallel_token")


@check
def nccl_one_process_all_gpus():
    return wrong(1, "--gpus", str(GPUS))


@check
def nccl_processes_all_gpus():
    return wrong(GPUS)


if __name__ == "__main__":
    main()
