# SPDX-License-Identifier: Apache-2.0
"""`barcuda pause` and `resume` of programs in a guest, at each door to the region: a program calls all the time, and asks for memory and NVML
while it is paused. And a guest that QEMU stops and lets go on, while a program trains in it. All go on, and their results are right.

By hand: STOPPED=120 stops each guest for 120 seconds. Hundreds of pauses: tests/hostile/lives."""
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, RUN, need, succeed
from vm.shell import Shell

STOPPED = float(os.environ.get("STOPPED", "0"))
PROGRAM, TRAINS = BUILD / "e2e/pauses", BUILD / "e2e/trains"


@pytest.fixture
def guest():
    need("qemu-system-x86_64")
    folder, made = Path(tempfile.mkdtemp(prefix="barcuda-test-")), []
    folder.chmod(0o711)  # for libvirt's QEMU, which is another user's

    def boot(door, *options):
        made.append(Shell(folder, door, *options))
        return made[-1].boot()
    yield boot
    for each in made:
        each.vm.kill(15)
    shutil.rmtree(folder, ignore_errors=True)


def program_is_paused(guest, number, variables=""):
    """It synchronizes all the time, asks for memory and NVML while it is paused, and has computed right."""
    guest.does(f"{variables} {PROGRAM} asks < /tmp/line 8<&- & program=$!")
    guest.says("^running", number)
    guest.pause()
    guest.does("echo >&9")
    guest.says("^answered", number)
    assert "right" not in guest.vm.out.split("running")[-1]
    said = guest.does(f"{variables} {BARCUDA} smi")
    assert "paused" in said, said
    guest.resume()
    guest.does("echo >&9; wait $program")
    guest.says("^right", number)
    guest.resume()  # of a client that runs, or of none


def is_stopped(guest, number, seconds, stop=lambda guest: guest.monitor("stop"), go_on=lambda guest: guest.monitor("cont")):
    """A guest that QEMU stops in the midst of a training, and of a program that calls all the time: all is as if nothing had been."""
    guest.does(f"mkfifo /tmp/end{number}; exec 7<> /tmp/end{number}")
    guest.does(f"{TRAINS} until=line < /tmp/end{number} > /tmp/trained 7<&- 8<&- & trains=$!")
    guest.does(f"{PROGRAM} asks < /tmp/line 7<&- 8<&- & program=$!")
    guest.says("^running", number)
    guest.does("until grep -q '^step 1:' /tmp/trained; do sleep 0.1; done")
    reclaimed = guest.bridge_log.count("reclaimed")
    stop(guest)
    time.sleep(seconds)
    assert guest.bridge_log.count("reclaimed") == reclaimed, f"a stopped guest's client was taken for dead: {guest.bridge_log}"
    go_on(guest)
    before = int(guest.does("grep -c '^step' /tmp/trained").split()[0])
    guest.does(f"until [ $(grep -c '^step' /tmp/trained) -gt {before} ]; do sleep 0.1; done; echo >&9")
    guest.says("^answered", number)
    guest.does("echo >&9; wait $program")
    guest.says("^right", number)
    guest.does("echo >&7; wait $trains")
    steps, trained = guest.does("grep -c '^step' /tmp/trained; md5sum < /tmp/trained").split()[:2]
    without = succeed(*RUN, TRAINS, f"steps={steps}")
    assert hashlib.md5(without.encode()).hexdigest() == trained, f"{guest.does('cat /tmp/trained')}, and without a stop {without}"
    print(f"stopped for {seconds} s: {steps} steps, as in a run without")
    assert not guest.complaints()


# Longer than anything on the host waits for anything of a guest's: the longest is asked.h's ten seconds.
LONG = 12


def test_at_the_door_with_interrupts_and_while_the_guest_is_stopped(guest):
    guest = guest("doorbell")
    program_is_paused(guest, 1)
    is_stopped(guest, 2, STOPPED or LONG)
    guest.end()


def test_at_the_doors_without_interrupts_by_the_module_and_by_the_whole_bar(guest):
    guest = guest("plain", "--user", "0", "--module", "pages=0")
    program_is_paused(guest, 1)
    if STOPPED:
        is_stopped(guest, 2, STOPPED)
    guest.does(Shell.TO_THE_BAR)
    program_is_paused(guest, 3 if STOPPED else 2, "BARCUDA_REGION=$bar")
    guest.end()


def test_at_the_door_of_virtio_pmem(guest):
    guest = guest("virtio-pmem")
    program_is_paused(guest, 1)
    if STOPPED:
        is_stopped(guest, 2, STOPPED)
    guest.end()


def test_a_domain_of_libvirts_is_suspended_and_resumed(guest, virsh):
    guest = guest("plain", "--libvirt", "--region-size", "1G")
    name = Path(guest.region).name.removeprefix("barcuda-")
    program_is_paused(guest, 1)
    is_stopped(guest, 2, STOPPED or LONG, lambda _: virsh("suspend", name), lambda _: virsh("resume", name))
    guest.end()
