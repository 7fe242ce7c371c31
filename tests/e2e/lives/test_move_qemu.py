# SPDX-License-Identifier: Apache-2.0
"""`barcuda move --qmp`: the machine itself moves with its clients, and runs at one side only, also when a process is killed or the connection
is lost at any step. QEMU here has firmware for a guest. (Guests with programs: tests/vm/test_suspend.py.)"""
import json
import os
import signal
import socket

import pytest

from e2e.flat import BARCUDA, Program, need, run, until
from e2e.lives.moves import Moves

pytestmark = pytest.mark.usefixtures("own_shm")
SIZE = 1 << 30


class Machine(Program):
    """A QEMU that has this region, and the disk that all of them have: QEMU locks it where its guest may write."""

    def __init__(self, folder, name, region, *options, disk="disk"):
        with open(folder / disk, "ab") as file:
            file.truncate(1 << 20)
        self.monitor = folder / f"{name}.qmp"
        super().__init__(folder, name, ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", "tcg",
                                        "-m", "32M", "-object", f"memory-backend-file,id=region,share=on,mem-path={region},size={SIZE}",
                                        "-device", "ivshmem-plain,master=on,memdev=region", "-qmp", f"unix:{self.monitor},server=on,wait=off",
                                        "-drive", f"file={folder / disk},format=raw,if=virtio", "-trace", "vm_state_notify", *options])
        until(lambda: self.monitor.exists() or not self.runs(), "QEMU is there")

    def went_on(self):
        """How often its guest began to run."""
        return self.log.count("vm_state_notify running 1")

    def does(self):
        """What its guest does, or `ended`."""
        with socket.socket(socket.AF_UNIX) as to:
            try:
                to.connect(str(self.monitor))
                lines = to.makefile("rw")
                lines.readline()
                for command in "qmp_capabilities", "query-status":
                    lines.write(json.dumps({"execute": command}) + "\n")
                    lines.flush()
                    while "return" not in (answer := json.loads(lines.readline())):
                        pass
                return answer["return"]["status"]
            except (OSError, ValueError):
                until(lambda: not self.runs(), f"it has ended: {self}")
                return "ended"


class Guest:
    """It runs in a QEMU, and moves from region to region."""

    def __init__(self, moves, folder):
        self.moves, self.folder, self.count = moves, folder, 0
        self.region, self.machine, self.machines = moves.region.path, None, []
        self.machine = self.start("first", self.region)
        until(self.machine.went_on, "it runs")

    def start(self, name, region, *options, **how):
        self.machines.append(Machine(self.folder, name, region, *options, **how))
        return self.machines[-1]

    def other(self, *options, **how):
        """The other QEMU, which waits."""
        self.count += 1
        self.name = f"vm{self.count}"
        self.there = self.moves.region.folder / f"barcuda-{self.name}"  # QEMU makes it
        self.before = self.machine.went_on()
        return self.start(self.name, self.there, *options, **how)

    def move(self, *faults, other=None):
        """What the command did, and the other QEMU."""
        other = other or self.other("-incoming", "defer")
        ran = self.moves.move(self.name, "--region", self.there, "--qmp", other.monitor, source=self.region, faults=faults, more=["--qmp", self.machine.monitor])
        return ran, other

    def is_at(self, machine, context):
        """Of two machines this one runs, under the only bridge, and nothing waits."""
        until(lambda: not self.moves.waits(self.name) and len(self.moves.bridges()) == 1, lambda: f"one bridge: {self.moves.bridges()}: {context}")
        assert machine.does() == "running", context
        if machine is self.machine:
            assert list(self.moves.bridges()) == [str(self.region)], context
            self.there.unlink()
        else:
            assert list(self.moves.bridges()) == [str(self.there)] and self.machine.does() == "ended", context
            assert self.machine.went_on() == self.before and machine.went_on() == 1, context
            self.region.unlink()
            self.region, self.machine = self.there, machine

    def end(self):
        for machine in self.machines:
            machine.kill()


@pytest.fixture
def guest(region, scratch):
    need("qemu-system-x86_64")
    region.serve("--no-vm", "--device-memory", "blocks")
    moves = Moves(region, scratch)
    one = Guest(moves, scratch)
    yield one
    one.end()
    moves.end()


SOURCE = [{"does": "mover", "word": "bytes", "count": 3}, {"does": "mover", "word": "part_end", "count": 3}, {"does": "receiver", "word": "part_end"},
          {"does": "cut", "word": "description", "delivered": True}, {"does": "receiver", "word": "have"}]
DESTINATION = [{"does": "cut", "word": "have", "delivered": True}, {"does": "receiver", "word": "go"}, {"does": "mover", "word": "go"},
               {"does": "receiver", "word": "awake"}]


def test_a_guest_runs_at_one_side_wherever_its_move_is_cut_or_killed(guest):
    for place in SOURCE:
        ran, other = guest.move({"delivered": False, **place})
        assert ran.status == 1, f"{place}: {ran}"
        # One that the guest has not reached waits for it still.
        until(lambda other=other: other.does() in ("ended", "inmigrate"), lambda: f"{place}: {other.does()}, {ran}")
        guest.is_at(guest.machine, f"{place}: {ran}")
    for place in DESTINATION:
        ran, other = guest.move({"delivered": False, **place})
        assert ran.status == 0, f"{place}: {ran}"
        guest.is_at(other, f"{place}: {ran}")


def test_a_guest_whose_bridge_has_ended_does_not_go_on_where_the_other_side_has_all(guest):
    ran, other = guest.move({"word": "have", "delivered": False, "does": "cut", "pid": guest.moves.region.bridge.pid})
    assert ran.status == 0, ran
    guest.is_at(other, ran)


def test_a_guest_whose_bridge_has_ended_goes_on_where_the_other_side_has_not_all(guest):
    ran, other = guest.move({"word": "part", "delivered": True, "does": "mover", "pid": guest.moves.region.bridge.pid})
    assert ran.status == 1 and guest.machine.does() == "running" and other.does() == "inmigrate", ran
    assert not guest.moves.bridges(), ran


def test_a_guest_that_is_paused_is_paused_at_the_other_side(guest):
    guest.machine.does()
    with socket.socket(socket.AF_UNIX) as to:
        to.connect(str(guest.machine.monitor))
        to.sendall(b'{"execute": "qmp_capabilities"} {"execute": "stop"}')
        until(lambda: b"STOP" in to.recv(4096), "it stands still")
    ran, other = guest.move()
    assert ran.status == 0 and other.does() == "paused" and guest.machine.does() == "ended", ran


def test_where_nobody_is_left_to_say_what_was_decided_the_guest_stands_still_until_an_operator_says_it(guest):
    ran, other = guest.move({"word": "go", "delivered": False, "does": "both"})
    assert ran.status == -signal.SIGKILL
    until(lambda: not guest.moves.bridges(), "no bridge serves")
    assert guest.machine.does() == "postmigrate" and other.does() == "paused"
    ran = run(*guest.moves.receive(guest.name, "--region", guest.there, "--go"))
    assert ran.status == 1 and "name the monitor of the QEMU here that will run it" in ran.err and other.does() == "paused", ran
    other.kill()
    other = guest.start("another", guest.there, "-incoming", "defer")

    def go():
        return run(*guest.moves.receive(guest.name, "--region", guest.there, "--qmp", other.monitor, "--go"))
    # As if it had run in the one that was killed.
    folder = guest.folder / "moved" / guest.name
    (folder / "awake").write_text((folder / "order").read_text().splitlines()[1])
    ran = go()
    assert ran.status == 1 and "the QEMU in which the guest went on has ended" in ran.err and other.does() == "inmigrate", ran
    (folder / "awake").unlink()
    ran = go()
    assert ran.status == 0, ran
    guest.machine.kill()
    guest.is_at(other, ran)


def test_a_guest_moves_to_another_bridge_of_the_same_region(guest):
    other = guest.start("other", guest.region, "-incoming", "defer")
    ran = guest.moves.move("region", "--qmp", other.monitor, more=["--qmp", guest.machine.monitor])
    assert ran.status == 0 and guest.machine.does() == "ended" and other.does() == "running", ran
    assert list(guest.moves.bridges()) == [str(guest.region)] and not guest.moves.waits(), ran


def test_ssh_is_told_the_monitor_of_the_other_host(guest, scratch):
    """There is no other host here: `ssh` is a script that runs the last word by a shell, as a host does."""
    ssh = scratch / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nprintf "%s" "$last" > "$SAYS"\nexec /bin/sh -c "$last"\n')
    ssh.chmod(0o755)
    other = guest.other("-incoming", "defer")
    paths = {"PATH": f"{scratch}:{BARCUDA.parent}:{os.environ['PATH']}", "SAYS": scratch / "says", "XDG_DATA_HOME": scratch}
    ran = run(BARCUDA, "move", "--region", guest.region, "--qmp", guest.machine.monitor, "--to", other.monitor, f"ssh://host/{guest.name}", "--no-vm",
              "--device", "soft", env=paths)
    assert ran.status == 0 and (scratch / "says").read_text().startswith(f"barcuda receive --qmp '{other.monitor}' '{guest.name}' "), ran
    guest.is_at(other, ran)


@pytest.mark.parametrize("went_on", [False, True])
def test_an_operator_s_drop_ends_the_other_qemu_unless_its_guest_went_on(guest, went_on):
    ran, other = guest.move({"word": "go", "delivered": False, "does": "both"})
    until(lambda: not guest.moves.bridges(), "no bridge serves")
    folder = guest.folder / "moved" / guest.name
    if went_on:  # as if its `barcuda receive` had been killed just then
        (folder / "awake").write_text((folder / "order").read_text().splitlines()[1])
    ran = run(*guest.moves.receive(guest.name, "--qmp", other.monitor, "--drop"))
    assert ran.status == 0 and not guest.moves.waits(guest.name) and other.does() == ("paused" if went_on else "ended"), ran


def test_what_does_not_fit_is_refused_before_the_guest_stops(guest):
    both, none = ["--qmp", guest.machine.monitor], []
    for there, here, why in ((none, both, "name the monitor of the QEMU here that will run it"), (both, none, "the guest does not come"),
                             (["--qmp", guest.folder / "nothing"], both, "QEMU listens there with"),
                             (none, ["--qmp", guest.folder / "nothing"], "QEMU listens there with")):
        ran = guest.moves.move("vm0", *there, more=here)
        assert ran.status == 1 and why in ran.err, ran
    ran, other = guest.move(other=guest.other(disk="another"))
    assert ran.status == 1 and "start it with -incoming defer" in ran.err and other.does() == "running", ran
    ran = run(BARCUDA, "move", "--to", "socket", "vm", "ssh://host/vm")
    assert ran.status == 2 and "needs --qmp" in ran.err, ran
    guest.is_at(guest.machine, "refused")
    assert os.path.exists(guest.region)
