# SPDX-License-Identifier: Apache-2.0
"""moves.py: what tests of `barcuda move` share: moves by a transport that fails where it is told to."""
import json
import os
import shlex
import signal
import sys
from pathlib import Path

from e2e.flat import BARCUDA, run, succeed, until

CUTS = Path(__file__).with_name("cuts.py")


class Moves:
    """A VM's moves: to another bridge of the same region, because programs without a VM have its file, or of another one."""

    def __init__(self, region, folder):
        self.region, self.folder, self.faults = region, folder, folder / "faults"
        self.faults.write_text("[]")

    def receive(self, name, *options, bridge=("--no-vm", "--device", "soft", "--log-level", "info")):
        return [BARCUDA, "receive", "--folder", self.folder / "moved", *options, name, *bridge]

    def move(self, name="-", *options, bridge=("--no-vm", "--device", "soft", "--log-level", "info"), faults=(), source=None, more=()):
        """`options`: of `barcuda receive`; `more`: of `barcuda move`."""
        self.faults.write_text(json.dumps(faults))
        words = map(str, [sys.executable, CUTS, self.faults, *self.receive(name, *options, bridge=bridge)])
        return run(BARCUDA, "move", "--region", source or self.region.path, *more, "--command", "exec " + shlex.join(words))

    def bridges(self):
        """Those that serve, by the path of their region."""
        serving = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
        return {bridge["region"]: bridge for bridge in serving}

    def waits(self, name="region"):
        return (self.folder / "moved" / name / "set").exists()

    def log(self, name="region"):
        return (self.folder / "moved" / name / "log").read_text()

    def end(self):
        for bridge in self.bridges().values():
            os.kill(bridge["pid"], signal.SIGTERM)
        until(lambda: not self.bridges(), "all bridges end")
