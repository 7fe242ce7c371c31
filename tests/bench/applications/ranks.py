# SPDX-License-Identifier: Apache-2.0
"""ranks.py: one program in several processes, a rank each, as those that share several GPUs by NCCL.

    python3 ranks.py [--ranks N] [--limit SECONDS] [--row NAME] FILE [WORD...]

Each gets RANK, RANKS and MEET, a folder to meet in. What rank 0 writes is written; of another one the end of its errors, where it fails. None
outlives the limit, nor one that has failed: that is a row, NAME with the reason, and the status is 1. A rank that ends with 77 has nothing to
show here: so has the whole.
"""
import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def wait(running, limit):
    """Until all have ended well, or one has not, or it is late: why it was no good."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        ended = [p.poll() for p in running]
        for rank, status in enumerate(ended):
            if status not in (None, 0):
                return f"rank {rank} ended with status {status}", status
        if None not in ended:
            return None, 0
        time.sleep(0.05)
    return f"no end within {limit:g} s", 1


def run(ranks, limit, words):
    """(what rank 0 wrote, why it failed or None, status)"""
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        out = open(f"{folder}/out", "w+")
        errors = [open(f"{folder}/errors-{rank}", "w+") for rank in range(ranks)]
        running = []
        try:
            for rank in range(ranks):
                environment = {**os.environ, "RANK": str(rank), "RANKS": str(ranks), "MEET": folder}
                running.append(subprocess.Popen([sys.executable, "-B", *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if rank else out,
                                                stderr=errors[rank], preexec_fn=die_with_parent))
            why, status = wait(running, limit)
        finally:
            for p in running:
                p.kill()
            for p in running:
                p.wait()
        for rank, file in enumerate(errors):
            file.seek(0)
            said = file.read()
            if said and (why or rank == 0):
                print(f"rank {rank}: {said[-1500:].rstrip()}", file=sys.stderr)
        out.seek(0)
        return out.read(), why, status


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--limit", type=float, default=100)
    p.add_argument("--row", default="ranks")
    p.add_argument("words", nargs=argparse.REMAINDER)
    a = p.parse_args()
    out, why, status = run(a.ranks, a.limit, a.words)
    print(out, end="")
    if status == 77:
        sys.exit(77)
    if why:
        print(json.dumps({"metric": a.row, "failed": why}), flush=True)
    sys.exit(why is not None)


if __name__ == "__main__":
    main()
