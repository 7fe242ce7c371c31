# SPDX-License-Identifier: Apache-2.0
"""application.py: what the applications share. An application is a function that makes itself ready and returns two: one that does a step,
and one that gives the numbers by which the same program's results are compared, natively and through Barcuda. A step may return how long each
of the requests took that it answered, in seconds: then the value is their 99th percentile, and not the time of a step.

    python3 torch_applications.py [--cpu] [NAME...]   each, as a line of JSON: metric, unit, value (the median of three rounds), result, counts

--cpu is for a machine without a GPU: one step of each on the processor, to see that the code works. Where BENCH_BARCUDA names barcuda's
program, `counts` are what a step asked of the bridge (barcuda ps): launches, graphs, waits, and bytes copied between host and device.
"""
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import traceback

APPLICATIONS = {}
UNITS = {"us": 1e6, "ms": 1e3}
CPU = "--cpu" in sys.argv


class Skipped(Exception):
    """What this machine, or its version of the framework, does not have: natively neither."""


def application(steps, per=1, unit="ms", warm=3, emulated=False):
    """Registers an application: steps in each of three rounds, after `warm` ones; a value is of a `per`-th of a step. `emulated`: it comes to its
    end on an emulated processor, too; tests/bench/run --vm reads that."""
    def register(function):
        APPLICATIONS[function.__name__] = (function, steps, per, unit, warm)
        return function
    return register


def counts():
    """What this guest has asked of its bridge so far: {} natively."""
    barcuda, region = os.environ.get("BENCH_BARCUDA"), os.environ.get("BARCUDA_REGION")
    if not barcuda or not region:
        return {}
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    seen = json.loads(subprocess.run([barcuda, "ps", "--json"], env=environment, capture_output=True, text=True).stdout or "{}")
    for bridge in seen.get("bridges", []):
        if bridge["region"] == region:
            c = bridge["counts"]
            return {"launches": c["launches"], "graphs": c["graph_launches"], "waits": c["waits"],
                    "bytes": c["copied_bytes"]["to_device"] + c["copied_bytes"]["to_host"]}
    return {}


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, (list, tuple)) else [float(value)]


def tell(**what):
    print(json.dumps(what), flush=True)


def measured(function, steps, per, unit, warm, wait):
    step, result = function()
    steps, warm, rounds = (1, 0, 1) if CPU else (steps, warm, 3)
    for _ in range(warm):
        step()
    wait()
    before, times, requests = counts(), [], []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(steps):
            requests += step() or []
        wait()
        times.append(time.perf_counter() - begun)
    after = counts()
    value = statistics.quantiles(requests, n=100)[98] if requests else statistics.median(times) / steps / per
    what = {"unit": unit, "value": value * UNITS[unit], "result": flat(result())}
    if after:
        what["counts"] = {name: (after[name] - before.get(name, 0)) / rounds / steps / per for name in after}
    return what


def main(device, wait, before=lambda: None):
    """`wait` waits for the GPU; `before` makes random numbers the same for each application."""
    names = [n for n in sys.argv[1:] if n != "--cpu"]
    tell(device=device)
    for name in names or APPLICATIONS:
        try:
            before()
            tell(metric="app_" + name, **measured(*APPLICATIONS[name], wait))
        except (Skipped, ImportError) as e:
            print(f"{name} is left out: {e}", file=sys.stderr)
        except Exception as e:  # noqa: BLE001: whatever a framework raises is the application's result
            traceback.print_exc()
            tell(metric="app_" + name, failed=f"{type(e).__name__}: {e}"[:200].replace("\n", " "))
        gc.collect()
