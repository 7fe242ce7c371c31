# SPDX-License-Identifier: Apache-2.0
"""A process that opens and closes channels without end is given a worker 64 times at once and then four times a second; the clients of other
processes do not wait for it, and the log does not grow with it. Programs that begin together all begin. A guest has a limit of its own."""
import re
import sys

from e2e.flat import BUILD, Program, needs_soft

pytestmark = needs_soft("a GPU's worker takes longer to start than a process may have new ones")
VECTOR_ADD = BUILD / "programs/vector_add"
AT_ONCE, A_SECOND = 64, 4
# As a guest's process does it that goes round the library: opens a channel, waits for its worker, and closes it.
STORM = r"""
import mmap, os, struct, sys, time
path, wanted = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_RDWR)
region = mmap.mmap(file, 0)
word = lambda at: struct.unpack_from("<I", region, at)[0]
write = lambda at, value: struct.pack_into("<I", region, at, value)
pid, count = os.getpid(), word(64)
born = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19])
begun, served, told = time.monotonic(), 0, False
while served < wanted:
    for i in range(count // 2):                            # and leaves the others to others
        slot, page = 0x1000 + 128 * i, 0x101000 + 0x100000 * i
        opened = word(slot)
        if not opened == word(slot + 4) == word(slot + 64): continue
        struct.pack_into("<Q", region, slot + 16, born)
        write(slot + 8, pid), write(slot, opened + 1)
        os.pread(file, 1, 0)                               # the bridge hears that
        write(page, pid), write(page + 168, 1)             # for the first device
        while word(slot + 68) != opened + 1:
            if served >= 64 and not told: told = True; print("waiting", flush=True)
        served += 1
        write(slot + 4, opened + 1)
        break
print("seconds", time.monotonic() - begun, flush=True)
"""


def together(region, count):
    """So many programs begin at once, and all of them pass."""
    for program in [region.background(f"client{i}", VECTOR_ADD) for i in range(count)]:
        program.wait()
        assert "PASSED" in program.out, program


def test_programs_that_begin_together_do_not_wait(region):
    region.serve("--no-vm")
    together(region, 12)
    assert not re.search("they wait|it waits", region.log), region.log


def test_a_process_that_opens_channels_without_end_waits_and_others_do_not(region):
    region.serve("--no-vm")
    sessions = AT_ONCE + 10
    storm = Program(region.folder, "storm", [sys.executable, "-c", STORM, region.path, sessions])
    region.programs.append(storm)
    for _ in range(3):
        ran = region.client(VECTOR_ADD)
        assert "PASSED" in ran.said, f"beside it: {ran}"
    assert storm.wait() == 0, storm
    seconds = float(storm.wait_for(r"^seconds (.*)$")[1])
    assert sessions <= AT_ONCE + A_SECOND * seconds + 1, storm
    # A machine that starts no more than four workers a second makes no process wait.
    assert "waiting" not in storm.out or f"the process with pid {storm.pid} opens one channel after the other" in region.log, region.log


def test_a_guest_may_start_only_so_many_clients_a_second(region):
    """All of its processes together: four at once, then one a second, in the order in which they come."""
    region.serve("--no-vm", "--guest-starts", 1)
    together(region, 8)
    assert region.log.count("more clients start than the guest may start in a second") == 1, region.log
