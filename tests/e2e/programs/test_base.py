# SPDX-License-Identifier: Apache-2.0
"""A client has the region at a base of its own, as where the system has put it somewhere: its worker maps what the client is granted there, and
nowhere else. A base where no region may lie, or where the worker has something else, is an error, and the bridge serves on."""
import fcntl
import mmap
import os
import re
import struct
from pathlib import Path

import pytest

from e2e.flat import BUILD, children, needs_soft, until

pytestmark = needs_soft("what the worker maps is looked at from outside")
GRANULE, CHANNEL = 32 << 20, 1 << 20
SLOTS, CHANNELS = 0x1000, 0x100000
STATUS, CLIENT, SUPPLY = 0x0, 0x1000, 0x8100
READY, REFUSED, DEAD = 1, 2, 3


class Client:
    """This process, as a client of slot 0 with a base of its own."""

    def __init__(self, region, base, devices=(0,)):
        self.file = open(region.path, "r+b")  # closed with the client: closing it lets go of the lock
        self.memory = mmap.mmap(self.file.fileno(), CHANNELS + CHANNEL)
        fcntl.lockf(self.file, fcntl.LOCK_EX, 1, SLOTS)
        page = CHANNELS + CLIENT
        self.memory[page:page + 4] = struct.pack("<I", os.getpid())
        self.memory[page + 136:page + 136 + len(devices)] = bytes(devices)
        self.memory[page + 208:page + 216] = struct.pack("<Q", base)
        start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        self.memory[SLOTS + 8:SLOTS + 24] = struct.pack("<IIQ", os.getpid(), 0, start)
        self.memory[SLOTS:SLOTS + 4] = struct.pack("<I", self.word(SLOTS) + 1)
        self.memory[page + 168:page + 172] = struct.pack("<I", len(devices))

    def word(self, at, form="<I"):
        return struct.unpack_from(form, self.memory, at)[0]

    def state(self):
        return self.word(CHANNELS + STATUS)

    def ends_with(self, state):
        until(lambda: self.state() > READY, "the session ends")
        assert self.state() == state, self.message()
        return self.message()

    def message(self):
        at = CHANNELS + STATUS + 40
        return self.memory[at:at + 256].split(b"\0")[0].decode()

    def extent(self):
        """An extent of its own: where it lies in the region."""
        page = CHANNELS + SUPPLY
        self.memory[page + 8:page + 16] = struct.pack("<Q", GRANULE)
        self.memory[page:page + 8] = struct.pack("<Q", self.word(page, "<Q") + 1)
        until(lambda: self.word(page + 64, "<Q") == self.word(page, "<Q"), "an extent is granted")
        assert self.word(page + 88, "<i") == 0, "no extent was granted"
        return self.word(page + 72, "<Q")

    def worker(self):
        until(lambda: self.state() != 0, "a worker serves it")
        assert self.state() == READY, self.message()
        return self.word(CHANNELS + STATUS + 12)

    def close(self):
        self.memory[SLOTS + 4:SLOTS + 8] = self.memory[SLOTS:SLOTS + 4]
        until(lambda: self.word(SLOTS + 64) == self.word(SLOTS), "its slot is reclaimed")
        self.memory.close()
        self.file.close()


@pytest.fixture
def come():
    clients = []

    def one(*about):
        clients.append(Client(*about))
        return clients[-1]
    yield one
    for client in clients:
        client.close()


def maps_of(pid):
    try:
        text = Path(f"/proc/{pid}/maps").read_text()
    except PermissionError:
        pytest.skip("a worker's mappings cannot be looked at: needs root")
    return [(int(begin, 16), int(end, 16), int(offset, 16), rest) for begin, end, offset, rest in
            re.findall(r"^([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) (.*)$", text, re.M)]


def parts_of_the_region(region, pid):
    return {offset: begin for begin, end, offset, rest in maps_of(pid) if rest.endswith(str(region.path))}


def still_serves(region):
    ran = region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.said, ran


@pytest.mark.parametrize("warm", [0, 1])
@pytest.mark.parametrize("cage", ["", "extents"])
def test_a_worker_has_its_client_s_memory_where_the_client_has_it(region, come, cage, warm):
    region.serve("--warm", warm, *(["--no-cage", cage] if cage else []))
    base = 0x600000000000
    client = come(region, base)
    worker, offset = client.worker(), client.extent()
    parts = parts_of_the_region(region, worker)
    assert parts[CHANNELS] == base + CHANNELS and parts[offset] == base + offset, parts
    assert all(begin == base + at for at, begin in parts.items()), f"something lies elsewhere: {parts}"
    still_serves(region)


@pytest.mark.parametrize("base, why", [(0x2a0000000000, "where the GPU's own memory is"), (0x200000000, "where the GPU's own memory is"),
                                       (0x600000001000, "no process can map it"), (0x7fffe0000000, "no process can map it"),
                                       (2 ** 64 - GRANULE, "no process can map it")],
                         ids=lambda value: hex(value) if isinstance(value, int) else "")
def test_a_base_where_no_region_may_lie_is_refused(region, come, base, why):
    region.serve()
    assert why in come(region, base).ends_with(REFUSED)
    still_serves(region)


def test_a_base_over_the_worker_s_own_memory_is_an_error(region, come):
    region.serve("--warm", 1)
    warm = until(lambda: [pid for pid in children(region.bridge.pid, "--worker") if parts_of_the_region(region, pid)], "a worker is warm")[0]
    own = next(begin for begin, end, offset, rest in maps_of(warm) if rest.endswith("barcuda-bridge") and begin > 0x500000000000)
    base = own // GRANULE * GRANULE - min(parts_of_the_region(region, warm))  # its first extent would lie there
    message = come(region, base).ends_with(DEAD)
    assert "worker" in message, message
    region.wait_for_log("cannot map 32 MiB of the region at .*: File exists")
    still_serves(region)
