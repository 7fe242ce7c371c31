# SPDX-License-Identifier: Apache-2.0
"""A process that may write into the file of turns can keep a turn forever, or hold its locks. A VM's workers then wait for no turns after one
of them alone has waited in vain; and the log says so."""
import sys

import pytest

from e2e.flat import BUILD, Program

SPOILER = """
import ctypes, mmap, os, struct, sys, time
what, path = sys.argv[1:]
file = mmap.mmap(os.open(path, os.O_RDWR), 0)
seats = 256
gpu = 16 + 64 * 12                                         # the first one, behind the groups (host-bridge/between/turns.h)
lock, turn, since, place = gpu + 20, gpu + 24, gpu + 32, gpu + 96 + 64 * 8
me = os.getpid()
struct.pack_into("<II", file, place + (seats - 1) * 24, me, 63)
turn, lock = (ctypes.c_uint32.from_buffer(file, at) for at in (turn, lock))
since = ctypes.c_uint64.from_buffer(file, since)
print("running", flush=True)
while True:
    if what == "turn": since.value, turn.value = time.clock_gettime_ns(time.CLOCK_MONOTONIC), seats
    else: lock.value = me
"""


@pytest.mark.parametrize("what", ["turn", "lock"])
def test_clients_are_served_although_a_process_keeps_the(region, what):
    turns = region.folder / "turns"
    region.serve("--no-vm", "--weight", "100", "--turns", turns)
    spoiler = Program(region.folder, "spoiler", [sys.executable, "-c", SPOILER, what, turns])
    region.programs.append(spoiler)
    spoiler.wait_for("running")
    for _ in range(12):
        ran = region.client(BUILD / "programs/vector_add")
        assert "PASSED" in ran.out, ran
    spoiler.kill()
    assert "no turn at a GPU came: a worker of another VM keeps its turn, or a lock of the file of turns; for 5 s this VM's workers do not wait for turns" in region.log, region.log
    region.stop()
