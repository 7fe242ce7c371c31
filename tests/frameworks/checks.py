# SPDX-License-Identifier: Apache-2.0
"""checks.py: what the checks of a framework share. A check is a function that returns numbers; which they should be, only
the same check on the machine's own CUDA knows (tests/frameworks/run compares them).

    python3 torch_checks.py --list            the names of its checks
    python3 torch_checks.py [NAME...]         each, as a line of JSON on standard output: name, values or skipped or error, seconds
"""
import json
import os
import subprocess
import sys
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


def main(before=lambda: None, after=lambda: None):
    """`before` makes random numbers the same for each check; `after` waits for the GPU."""
    names = sys.argv[1:] or list(CHECKS)
    if names == ["--list"]:
        print("\n".join(CHECKS))
        return
    for name in names:
        begun = time.monotonic()
        try:
            before()
            values = flat(CHECKS[name]())
            after()
            tell(check=name, values=values, seconds=round(time.monotonic() - begun, 2))
        except Skipped as e:
            tell(check=name, skipped=str(e))
        except Exception as e:  # noqa: BLE001: whatever a framework raises is the check's result
            traceback.print_exc()
            tell(check=name, error=f"{type(e).__name__}: {e}"[:300])
