# SPDX-License-Identifier: Apache-2.0
"""The file system that holds a region fills up, and a process takes each page that becomes free: the bridge lives, and says what it cannot give:
clients get ordinary memory, where there is any left for their commands. A region that is cut short ends its bridge with the reason."""
import os
import sys
from pathlib import Path

import pytest

from e2e.conftest import OWN_SHM
from e2e.flat import BUILD, Program, until

SMALL = Path("/dev/shm/small")
OWN_MOUNTS = "a small file system", f"{OWN_SHM} && mkdir {SMALL} && mount -t tmpfs -o size=24M tmpfs {SMALL}"
VECTOR_ADD = BUILD / "programs/vector_add"
# Takes each page of the file system that becomes free.
FILLS = """
import sys
with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        try: file.write(bytes(4096))
        except OSError: pass
"""


@pytest.fixture
def small(own_mounts, region):
    """A file system of 24 MiB, where the region is."""
    region.path = SMALL / "region"
    yield SMALL
    region.bridge.kill()
    region.path.unlink()


def test_a_bridge_lives_in_a_full_file_system_and_serves_clients_when_there_is_room(small, region):
    bridge = region.serve()
    ran = region.client(VECTOR_ADD)
    assert "PASSED" in ran.out, f"with 24 MiB: {ran}"
    filler = Program(region.folder, "filler", [sys.executable, "-c", FILLS, small / "filler"])
    region.programs.append(filler)
    until(lambda: os.statvfs(small).f_bavail == 0, "the file system is full")
    for _ in range(20):
        client = region.background("client", VECTOR_ADD)
        client.wait()
        assert bridge.runs(), f"the bridge has died: {bridge.log}"
    filler.kill()
    (small / "filler").unlink()
    ran = region.client(VECTOR_ADD)
    assert "PASSED" in ran.out, f"when there is room again: {ran}"


def test_a_region_that_is_cut_short_ends_its_bridge_with_the_reason(small, region):
    bridge = region.serve()
    os.truncate(region.path, 0)
    assert bridge.wait() == 1 and "was cut short" in bridge.log, bridge.log
