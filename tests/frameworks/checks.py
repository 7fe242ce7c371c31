# SPDX-License-Identifier: Apache-2.0
"""checks.py: what the checks of a framework share. A check is a function that returns numbers; which they should be, only
the same check on the machine's own CUDA knows (tests/frameworks/run compares them).

    python3 torch_checks.py --list            the names of its checks
    python3 torch_checks.py [NAME...]         each, as a line of JSON on standard output: name, values or skipped or error, seconds
"""
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback

CHECKS = {}


class Skipped(Exception):
    """What this machine, or its version of the framework, does not have: natively neither."""


def check(function):
    """Registers a check. Its values: a number, or a list of numbers."""
    CHECKS[function.__name__] = function
    return function


def value_in_child(name, **environment):
    """The values of a check of the same file in a process of its own, which begins with other environment variables."""
    child = subprocess.run([sys.executable, sys.argv[0], name], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    for line in child.stdout.splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            if "values" in told:
                return told["values"]
            raise RuntimeError(told.get("error", "skipped"))
    raise RuntimeError(f"status {child.returncode}: {child.stderr.strip().splitlines()[-1:]}")


def flat(value):
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flat(v)]
    return [float(value)]


def tell(**what):
    print(json.dumps(what), flush=True)


class Carried:
    """While a check runs, and once at its end: whether its client could be carried to another host. CARRIED is the barcuda that is asked."""

    def __init__(self):
        self.barcuda, self.answers, self.over = os.environ.get("CARRIED"), [], threading.Event()

    def ask(self):
        asked = subprocess.run([self.barcuda, "suspend", "--check"], env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, capture_output=True,
                               text=True, check=False)
        rows = [re.split(r"\s{2,}", row.strip(), maxsplit=4) for row in asked.stdout.splitlines()]  # channel, pid, program, yes or no, why
        reasons = [row[4] for row in rows if row[3:4] == ["no"]] or asked.stderr.strip().splitlines()[-1:]
        self.answers.append("" if asked.returncode == 0 else "; ".join(reasons) or f"status {asked.returncode}")

    def ask_on(self):
        while not self.over.wait(0.5):
            self.ask()

    def __enter__(self):
        if self.barcuda:
            self.thread = threading.Thread(target=self.ask_on)
            self.thread.start()
        return self

    def __exit__(self, *_):
        if self.barcuda:
            self.over.set()
            self.thread.join()
            self.ask()

    def told(self):
        return {"carried": self.answers} if self.barcuda else {}


def main(before=lambda: None, after=lambda: None):
    """`before` makes random numbers the same for each check; `after` waits for the GPU."""
    names = sys.argv[1:] or list(CHECKS)
    if names == ["--list"]:
        print("\n".join(CHECKS))
        return
    for name in names:
        begun = time.monotonic()
        try:
            with Carried() as carried:
                before()
                values = flat(CHECKS[name]())
                after()
                seconds = round(time.monotonic() - begun, 2)
            tell(check=name, values=values, seconds=seconds, **carried.told())
        except Skipped as e:
            tell(check=name, skipped=str(e))
        except Exception as e:  # noqa: BLE001: whatever a framework raises is the check's result
            traceback.print_exc()
            tell(check=name, error=f"{type(e).__name__}: {e}"[:300])
