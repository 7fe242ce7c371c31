# SPDX-License-Identifier: Apache-2.0
"""A client that sleeps costs the host nothing: bridge and worker sleep as well; a call wakes the worker, and the worker wakes a thread that sleeps
until the GPU is done."""
import os
import re
import struct
import time
from pathlib import Path

from e2e.flat import BUILD, until

SECONDS = 5
CHANNEL = 0x100000  # the first one's page
KICKS, WAKES = 0x8004, 0x8044


class Sleeper:
    """A client that sleeps until it gets a line by a pipe."""

    def __init__(self, region, *words):
        self.region, self.line = region, region.folder / "line"
        os.mkfifo(self.line)
        self.write = os.open(self.line, os.O_RDWR)  # both ends, so that no open waits
        region.serve("--no-vm")
        self.program = region.start("client", BUILD / "e2e/idle", self.line, *words)

    def word(self, at):
        """Of the client's channel."""
        with open(self.region.path, "rb") as file:
            return struct.unpack("<I", os.pread(file.fileno(), 4, CHANNEL + at))[0]

    def go_on(self):
        os.write(self.write, b"\n")
        self.program.wait_for("PASSED")

    def end(self):
        os.write(self.write, b"\n")
        os.close(self.write)
        assert self.program.wait() == 0, self.program


def used(pid):
    """Nanoseconds on a processor, and how often it came up."""
    return (int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]),
            int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1]))


def spent(pids, seconds):
    """What each of them uses in this time."""
    before = [used(pid) for pid in pids]
    time.sleep(seconds)
    return [(now[0] - then[0], now[1] - then[1]) for then, now in zip(before, map(used, pids))]


def test_bridge_and_worker_sleep_while_a_client_does_and_a_call_wakes_the_worker(region):
    client = Sleeper(region)
    pids = region.bridge.workers()[0], region.bridge.proper
    # The bridge looks often for a second after it heard something; and it starts the next warm worker.
    until(lambda: all(looks <= 10 for _, looks in spent(pids, 1)), "bridge and worker come to rest")
    # The worker wakes twice a second to see that nothing was missed. Both use no more than 0.2 % of a processor.
    for name, most, (nanoseconds, looks) in zip(("worker", "bridge"), (25, 40), spent(pids, SECONDS)):
        assert nanoseconds <= SECONDS * 2_000_000 and looks <= most, f"the {name} does not sleep: {nanoseconds} ns, came up {looks} times in {SECONDS} s"
    kicks = client.word(KICKS)
    client.go_on()
    assert client.word(KICKS) > kicks, "no kick woke the worker"
    client.end()


def test_a_worker_wakes_the_thread_that_sleeps_until_the_gpu_is_done(region):
    client = Sleeper(region, "gpu")
    until(lambda: Path(f"/proc/{client.program.pid}/syscall").read_text().startswith("202 "), "the thread sleeps (futex)")
    wakes = client.word(WAKES)
    client.go_on()
    assert client.word(WAKES) > wakes, "no worker woke the thread that slept in cudaDeviceSynchronize"
    client.end()
