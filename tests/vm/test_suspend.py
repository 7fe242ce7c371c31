# SPDX-License-Identifier: Apache-2.0
"""A guest that is suspended with its clients by one command, when QEMU, the bridge and all workers have ended and the region is gone, and goes
on in another QEMU, with right results; and what QEMU or the disk refuses, after which the guest runs as before. That guest then moves to another
QEMU, bridge and region, as a stream. And a guest that goes from QEMU to QEMU while its bridge serves.

By hand: MOVES=20 moves it 20 times, at each of these doors; FORKS=8 starts eight clones at once."""
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, RUN, Program, need, run, succeed, until
from vm.shell import PATIENCE, Shell

TRAINS, HOLDS = BUILD / "e2e/trains", BUILD / "e2e/pauses"
# As little as a guest may have: all of it goes to the disk and back.
SMALL = ["--memory", "512M", "--region-size", "1G", "--option=--device-memory=blocks"]
FORKS = int(os.environ.get("FORKS", "2"))
TOOLS = ["mkfifo", "sleep", "grep", "tail", "md5sum", "cat"]


@pytest.fixture
def folder():
    """Where regions and sets are."""
    need("qemu-system-x86_64", "cpio")
    made = Path(tempfile.mkdtemp(prefix="barcuda-test-", dir="/dev/shm"))
    made.chmod(0o711)  # for libvirt's QEMU
    yield made
    shutil.rmtree(made, ignore_errors=True)
    for region in made.parent.glob(f"{made.name}.region*"):
        region.unlink()


@pytest.fixture
def boot(folder):
    made = []

    def boot(door, *options):
        carried = [word for file in (*TOOLS, TRAINS, HOLDS) for word in ("--carry", file)]
        made.append(Shell(folder, door, "--region", f"{folder}.region", *SMALL, *carried, *options))
        return made[-1].boot()
    yield boot
    for each in made:
        each.vm.kill(15)


@pytest.fixture
def ends():
    """Bridges that no process of the test has started."""
    regions = []
    yield regions.append
    for bridge in json.loads(run(BARCUDA, "ps", "--json").out)["bridges"]:
        if bridge["region"] in regions:
            os.kill(bridge["pid"], signal.SIGTERM)


def begin(guest):
    """A training, which goes on until it is told, and a program that holds memory."""
    guest.does("mkfifo /tmp/end /tmp/held; exec 6<> /tmp/held 7<> /tmp/end")
    guest.does(f"{TRAINS} until=line < /tmp/end > /tmp/trained 6<&- 7<&- 8<&- & trains=$!")
    guest.does(f"{HOLDS} hold 4 < /tmp/held > /tmp/holds 6<&- 7<&- 8<&- & holds=$!")
    guest.does("until grep -q '^step 1:' /tmp/trained && grep -q running /tmp/holds; do sleep 0.1; done")


def trains_on(guest):
    before = int(guest.does("grep -c '^step' /tmp/trained").split()[0])
    guest.does(f"until [ $(grep -c '^step' /tmp/trained) -gt {before} ]; do sleep 0.1; done")


def end_programs(guest):
    """How many steps it has trained, and a hash of what it said."""
    guest.does("echo >&7; wait $trains")
    guest.does("echo >&6; wait $holds && grep -q right /tmp/holds")
    steps, trained = guest.does("grep -c '^step' /tmp/trained; md5sum < /tmp/trained").split()[:2]
    return int(steps), trained


def end_well(*guests):
    """All have trained as a program that is left alone does."""
    trained = [end_programs(guest) for guest in guests]
    *alone, verdict = succeed(*RUN, TRAINS, f"steps={max(steps for steps, _ in trained)}").splitlines(keepends=True)
    for guest, (steps, its) in zip(guests, trained):
        assert hashlib.md5("".join([*alone[:steps], verdict]).encode()).hexdigest() == its, guest.does("cat /tmp/trained")
        guest.end()


def ends_well(guest):
    trains_on(guest)
    end_well(guest)


def suspend(guest, folder, *options, **how):
    return run(BARCUDA, "suspend", "--region", guest.region, folder, *options, patience=PATIENCE, **how)


def is_refused(guest, folder, why, *options, **how):
    """The command says why, leaves no folder, and the guest's programs go on."""
    ran = suspend(guest, folder, *options, **how)
    assert ran.status == 1 and why in ran.said, f"{ran}\n{guest.bridge_log}"
    assert not list(folder.parent.glob(f"{folder.name}*"))
    trains_on(guest)


def with_small_files():
    """Writes beyond so many bytes of a file fail, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 20, 12 << 20))


def number(guest):
    """A random one, of the guest's kernel."""
    return guest.does("cat /proc/sys/kernel/random/uuid").splitlines()[0]


def test_a_guest_goes_on_several_times_each_with_its_own_region_and_seed(boot, folder):
    guest, suspended = boot("plain"), folder / "set"
    begin(guest)
    ran = suspend(guest, suspended, "--qmp", guest.log / "qmp")
    assert ran.status == 0, f"{ran}\n{guest.bridge_log}"
    guest.vm.wait()
    clones, took = [], []
    for n in range(FORKS):
        began = time.monotonic()
        clones.append(guest.fork(suspended, f"clone{n}"))
        trains_on(clones[-1])
        took.append(time.monotonic() - began)
    numbers = [number(clone) for clone in clones]
    assert len({*numbers}) == FORKS, numbers
    print(f"each trained on after {min(took):.1f} to {max(took):.1f} s")
    end_well(*clones)


def move(guest, *words):
    """By a pipe to the command that receives."""
    return run(BARCUDA, "move", "--region", guest.region, "--qmp", guest.log / "qmp", "--command", "exec " + shlex.join(map(str, words)), patience=PATIENCE)


def stays(guest, folder):
    """A QEMU of another kind of machine does not take the guest, which goes on where it was."""
    region, monitor = f"{guest.region}.wrong", folder / "wrong.qmp"
    wrong = Program(folder, "wrong", ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35", "-m", "64M", "-incoming", "defer",
                                      "-qmp", f"unix:{monitor},server=on,wait=off",
                                      "-object", f"memory-backend-file,id=region,share=on,mem-path={region},size=1G"])
    until(monitor.exists, "QEMU waits")
    ran = move(guest, BARCUDA, "receive", "--folder", folder / "moved", "--region", region, "--qmp", monitor, "wrong", "--device", DEVICE)
    assert ran.status == 1 and "QEMU" in ran.err, f"{ran}\n{wrong}"
    assert wrong.wait() != 0 and not (folder / "moved/wrong/set").exists()
    trains_on(guest)


def moves(guest, folder):
    """The guest, which trains on under another bridge."""
    words, moved = guest.receive(folder, "moved")
    ran = move(guest, *words)
    assert ran.status == 0, f"{ran}\n{moved.vm}\n{guest.bridge_log}\n{moved.bridge_log}"
    print(ran.out)
    guest.vm.wait()
    Path(guest.region).unlink()
    trains_on(moved)
    return moved


@pytest.mark.parametrize("door", ["plain", "virtio-pmem"])
def test_a_guest_is_suspended_with_its_clients_and_goes_on_and_moves(boot, folder, ends, door):
    guest, suspended = boot(door), folder / "set"
    begin(guest)
    is_refused(guest, suspended, "vm.zst: File too large", "--qmp", guest.log / "qmp", preexec_fn=with_small_files)
    ran = suspend(guest, suspended, "--qmp", guest.log / "qmp")
    assert ran.status == 0, f"{ran}\n{guest.bridge_log}"
    guest.vm.wait()
    assert not guest.complaints()
    Path(guest.region).unlink()
    ran = run(BARCUDA, "wake", suspended)
    assert ran.status == 1 and "name the monitor of the QEMU that will run it" in ran.err, ran
    guest.wake(suspended)
    trains_on(guest)
    stays(guest, folder)
    guest = moves(guest, folder)
    ends(guest.region)
    ends_well(guest)


def test_a_domain_of_libvirts_is_suspended_and_goes_on(boot, folder, virsh):
    guest, suspended = boot("plain", "--libvirt"), folder / "set"
    name = Path(guest.region).name.removeprefix("barcuda-")
    begin(guest)
    ran = suspend(guest, suspended, "--libvirt", name)
    assert ran.status == 0, f"{ran}\n{guest.bridge_log}"
    guest.vm.wait()
    assert name not in virsh("list", "--all")
    Path(guest.region).unlink()
    guest.wake(suspended)
    assert "running" in virsh("domstate", name)
    ends_well(guest)


def is_not_taken(guest, folder):
    """A QEMU of another kind of machine does not take the guest, which goes on where it was."""
    monitor = folder / "wrong.qmp"
    wrong = Program(folder, "wrong", ["qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35", "-m", "64M", "-incoming", "defer",
                                      "-qmp", f"unix:{monitor},server=on,wait=off"])
    until(monitor.exists, "QEMU waits")
    ran = guest.ask("hand-over", "--qmp", guest.log / "qmp", "--to", monitor)
    assert ran.status == 1, f"{ran}\n{wrong}"
    assert wrong.wait() != 0
    trains_on(guest)


@pytest.mark.parametrize("door", ["plain", "virtio-pmem"] if "MOVES" in os.environ else ["plain"])
def test_a_guest_goes_to_another_qemu_while_its_bridge_serves(boot, folder, door):
    bridge = Program(folder, "bridge", [BRIDGE, "--region", f"{folder}.region", "--size", "1G", "--device", DEVICE, "--log-level", "info"])
    try:
        bridge.wait_for("region .* of 1024 MiB")
        guest = boot(door, "--served", bridge.log_file)
        begin(guest)
        is_not_taken(guest, folder)
        stood = []
        for _ in range(int(os.environ.get("MOVES", "3"))):
            stood.append(int(re.search(r"stood still for (\d+) ms", guest.hand_over())[1]))
            trains_on(guest)
        print(f"{door}: the guest stood still for {sorted(stood)} ms")
        ends_well(guest)
        assert bridge.runs() and "reclaimed" in bridge.log
    finally:
        bridge.kill(15)


def test_what_is_not_the_vm_or_cannot_be_saved_is_refused(boot, folder):
    guest, suspended = boot("doorbell"), folder / "set"
    begin(guest)
    is_refused(guest, suspended, "ivshmem-doorbell, which QEMU cannot save", "--qmp", guest.log / "qmp")
    is_refused(guest, suspended, "No such file or directory; QEMU listens there with", "--qmp", folder / "nothing")
    ends_well(guest)
