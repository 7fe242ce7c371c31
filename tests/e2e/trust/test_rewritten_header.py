# SPDX-License-Identifier: Apache-2.0
"""A guest's root writes other numbers into the header while a new bridge takes the region over, and opens channels that do not exist. The bridge
goes by its own numbers: it lives, serves the clients that have a channel, and lists no others."""
import json
import sys

import pytest

from e2e.flat import BARCUDA, BUILD, Program, succeed

CHANNELS = 16  # of the bridge
ROOT = r"""
import mmap, os, struct, sys, time
path, channels = sys.argv[1], int(sys.argv[2])
region = mmap.mmap(os.open(path, os.O_RDWR), 0x100000)
word = lambda at: struct.unpack_from("<I", region, at)[0]
write = lambda at, value: struct.pack_into("<I", region, at, value)
true, count, beat = region[:8], word(64), word(160)
until = time.monotonic() + 60
def awaited(what):
    if time.monotonic() > until: sys.exit("a minute without " + what)
    return True
print("running", flush=True)
while region[:8] == true and word(160) == beat: awaited("a bridge that takes the region over")
while region[:8] != true and awaited("an announcement"): write(64, channels)
taken = word(64) == channels
for slot in range(count, min(channels, 480)):             # those further on are in other tables
    at = 0x1000 + 128 * slot
    write(at + 8, 0), write(at, word(at + 4) + 1)         # as a module opens one
beat = word(160)
while (word(160) - beat) % 2**32 < 8: awaited("a heartbeat")  # the bridge has looked at them
write(64, count)                                          # for the library, which refuses such a header
print("taken" if taken else "late", flush=True)
"""


def taken_over(region, channels):
    """A bridge takes the region over while root writes: whether root was in time."""
    region.stop()
    root = Program(region.folder, "root", [sys.executable, "-c", ROOT, region.path, channels])
    region.programs.append(root)
    root.wait_for("^running$")
    region.serve()
    assert root.wait() == 0, root
    return "taken" in root.out.splitlines()


@pytest.mark.parametrize("channels", [470, 3900])
def test_a_bridge_goes_by_its_own_number_of_channels(region, channels):
    region.serve()
    assert any(taken_over(region, channels) for _ in range(20)), "root was late 20 times"
    for _ in range(2):
        listed = json.loads(succeed(BARCUDA, "limit", "--region", region.path, "--json"))
        assert all(client["channel"] < CHANNELS for client in listed["clients"]), "clients that do not exist"
        ran = region.client(BUILD / "programs/vector_add")
        assert "PASSED" in ran.said, ran
    assert region.bridge.runs(), region.bridge
