# SPDX-License-Identifier: Apache-2.0
"""Workers wait for clients: as many as --warm says; more of them, up to --warm-most, when clients come faster than they are made; and again as many
as before when no client comes for --warm-idle seconds. No client of a burst gets ordinary memory for the region's."""
import json
import os
import re

import pytest

from e2e.flat import BARCUDA, BUILD, DEVICE, succeed, until

# What asks all bridges wakes those of other tests.
pytestmark = pytest.mark.usefixtures("own_shm")
NAME = f"warm-{os.getpid()}"
OPTIONS = "--no-vm", "--name", NAME, "--warm", 1, "--warm-most", 4


def waits_for_clients(count):
    """Waits until as many workers do."""
    def waiting():
        return next(b["waiting_workers"] for b in json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"] if b["name"] == NAME)
    until(lambda: waiting() == count, lambda: f"{count} workers wait for clients, not {waiting()}")


def burst(region, count=12):
    for program in [region.background(f"client{i}", BUILD / "programs/vector_add", env={"BARCUDA_STATS": 1}) for i in range(count)]:
        program.wait()
        assert "PASSED" in program.out and re.search("fallbacks  *0 blocks", program.log), program


def test_after_a_burst_more_workers_wait_until_no_client_has_come_for_a_while(region):
    idle = 8 if DEVICE == "soft" else 40  # longer than four workers take to start
    region.serve(*OPTIONS, "--warm-idle", idle, size="4G")
    waits_for_clients(1)
    burst(region)
    waits_for_clients(4)
    waits_for_clients(1)


def test_workers_wait_only_as_there_is_room_for_them(region):
    """Of four for two, or three: each keeps 64 MiB of the region, and has something for itself."""
    region.serve(*OPTIONS, "--warm-idle", 60, "--warm-memory", "200M", size="4G")
    waits_for_clients(1)
    for _ in range(2):
        burst(region)
        waits_for_clients(2)
