# SPDX-License-Identifier: Apache-2.0
"""A suspended VM goes on several times, each in a region of its own (`barcuda wake --as`); a VM moves to another bridge as a stream
(`barcuda move`, `barcuda receive`), and exactly one side goes on, whatever is killed and wherever the connection is cut.

The programs here have no VM. `pauses follows` plays its own: it has another region's file mapped in place of its first one when it is told
so, and lets copies of itself go on as clones of a VM do.
"""
import fcntl
import os
import re
import signal
import struct
import subprocess

import pytest

from e2e.flat import BARCUDA, BUILD, Program, run, until
from e2e.lives.moves import Moves

# `barcuda ps` ends with 1 where a bridge of another test hangs.
pytestmark = pytest.mark.usefixtures("own_shm")
F_OFD_SETLK = 37
SEED = 26112
MOVES = int(os.environ.get("MOVES", "3"))


class Elsewhere:
    """Another file for a region, which a VM has open: what its channels' owners have locked in it lives as long as that."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w+b")
        fcntl.fcntl(self.file, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 1, 0, 0))

    def close(self):
        self.file.close()


@pytest.fixture
def blocks(region):
    """A region whose bridge carries clients."""
    region.serve("--no-vm", "--device-memory", "blocks")
    return region


def plays_a_vm(region, name="vm", mib=16):
    return region.start(name, BUILD / "e2e/pauses", "follows", mib, stdin=subprocess.PIPE)


def suspend(region, folder):
    ran = run(BARCUDA, "suspend", "--region", region.path, folder)
    assert ran.status == 0, f"{ran}\n{region.log}"
    assert region.bridge.wait() == 0, region.log


@pytest.fixture
def woken(region):
    """Starts bridges that wake a folder; they end with the test."""
    bridges = []

    def wake(folder, *options):
        bridge = Program(region.folder, f"woken-{len(bridges)}",
                         [BARCUDA, "wake", *options, folder, "--no-vm", "--device", "soft", "--log-level", "info"])
        bridges.append(bridge)
        return bridge
    yield wake
    for bridge in bridges:
        bridge.kill(signal.SIGTERM)


# ---- forks -------------------------------------------------------------------------------------------------------------
def test_one_folder_is_woken_many_times_and_each_clone_goes_on_with_memory_of_its_own(blocks, scratch, woken):
    vm = plays_a_vm(blocks)
    suspend(blocks, scratch / "set")
    before = sorted(scratch.joinpath("set").rglob("*"))
    clones = [Elsewhere(blocks.folder / f"barcuda-clone{i}") for i in range(4)]
    bridges = [woken(scratch / "set", "--as", f"clone{i}") for i in range(4)]
    for bridge in bridges:
        bridge.wait_for("awake, with 1 client")
    for clone in clones:
        vm.send(f"clone {clone.path}")
    until(lambda: vm.out.count("right") == 4, vm)
    for clone, bridge in zip(clones, bridges):
        clone.close()
        bridge.wait_for("reclaimed")
    assert sorted(scratch.joinpath("set").rglob("*")) == before
    # And the VM itself, last of all.
    blocks.serve("--no-vm", "--device-memory", "blocks", "--wake", scratch / "set")
    vm.send()
    assert vm.wait() == 0 and vm.out.count("right") == 5, f"{vm}\n{blocks.log}"


def test_a_fork_gets_a_name_and_a_region_of_its_own(blocks, scratch, woken):
    suspend(blocks, scratch / "set")
    taken = blocks.folder / "barcuda-taken"
    taken.write_text("something")
    for options, why in ((["--as", "taken"], "barcuda-taken: it is there already"),
                         (["--as", "clone", "--region", blocks.path], "region: it is there already"),
                         (["--as", "../clone"], "is no name"),
                         (["--as", "clone", "--name", "other"], "--as excludes --name|--name excludes --as")):
        ran = run(BARCUDA, "wake", *options, scratch / "set", "--device", "soft")
        assert ran.status != 0 and re.search(why, ran.err), ran
    assert taken.read_text() == "something"
    woken(scratch / "set", "--as", "clone").wait_for("awake, with 0 clients")
    assert "clone " in run(BARCUDA, "ps").out and (blocks.folder / "barcuda-clone").exists()


# ---- moves -------------------------------------------------------------------------------------------------------------
@pytest.fixture
def moves(blocks, scratch):
    those = Moves(blocks, scratch)
    yield those
    those.end()


def test_a_vm_moves_to_another_bridge_and_its_program_goes_on(moves):
    vm = plays_a_vm(moves.region)
    workers = moves.region.bridge.workers()
    for _ in range(3):
        ran = moves.move()
        assert ran.status == 0 and "moved to" in ran.out and "1 client" in ran.out and not moves.waits(), f"{ran}\n{moves.region.log}"
    assert moves.region.bridge.wait() == 0
    assert not any(os.path.exists(f"/proc/{worker}") for worker in workers)
    assert list(moves.bridges()) == [str(moves.region.path)]
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


def test_a_vm_moves_into_another_region(moves):
    vm = plays_a_vm(moves.region)
    other = Elsewhere(moves.region.folder / "barcuda-vm2")
    ran = moves.move("vm2")
    assert ran.status == 0, f"{ran}\n{moves.region.log}"
    assert moves.region.bridge.wait() == 0
    assert [(path, bridge["name"]) for path, bridge in moves.bridges().items()] == [(str(other.path), "vm2")]
    assert "all clients are back, and wait" in moves.log("vm2")
    vm.send(str(other.path))
    assert vm.wait() == 0 and "right" in vm.out, f"{vm}\n{moves.log('vm2')}"
    other.close()


def test_a_program_that_moves_from_region_to_region_loses_nothing(moves):
    """It is stopped while it moves, as a VM's guest does, and copies and launches in each region."""
    vm = moves.region.start("vm", BUILD / "e2e/pauses", "wanders", 16, stdin=subprocess.PIPE)
    until(lambda: "right" in vm.out, vm)
    where, regions, stood = moves.region.path, [], []
    for n in range(MOVES):
        regions.append(Elsewhere(moves.region.folder / f"barcuda-vm{n}"))
        ran = moves.move(f"vm{n}", source=where)
        assert ran.status == 0, f"{ran}\n{moves.region.log}"
        stood.append(float(re.search(r"stood still for ([\d.]+) s", ran.out)[1]))
        before, where = where, regions[-1].path
        vm.send(str(where))
        until(lambda n=n: vm.out.count("right") == n + 2 or not vm.runs(), vm)
        assert vm.runs(), vm
        before.unlink()
        assert list(moves.bridges()) == [str(where)]
    vm.send()
    assert vm.wait() == 0 and "wrong" not in vm.out, vm
    for region in regions:
        region.close()
    print(f"it stood still for {sorted(stood)} s")


def test_programs_that_move_all_the_time_compute_what_they_always_do(moves):
    command = [BUILD / "e2e/trains", f"steps={600 + 300 * MOVES}", f"seed={SEED}"]
    alone = moves.region.client(*command)
    assert alone.status == 0, alone
    program, moved = moves.region.background("model", *command), 0
    until(lambda: moves.bridges()[str(moves.region.path)]["clients"], "it has begun")
    while program.runs() and moved < MOVES:
        ran = moves.move()
        moved += ran.status == 0
        # What of a running program may stand in the way at this moment.
        assert ran.status == 0 or re.search("can be carried|did not end within|has ended", ran.err) or not program.runs(), ran
    assert program.wait() == 0 and program.out == alone.out, program
    print(f"{moved} moves")
    assert moved


# ---- exactly one side goes on ------------------------------------------------------------------------------------------
def goes_on(moves, ran, fault, vm):
    """Which side. Exactly one bridge has the region, its client runs, and nothing waits for a decision."""
    context = f"{fault}: {ran}\n{moves.region.log}"
    moved = ran.status == 0
    until(lambda: not moves.waits(), lambda: f"nothing waits: {context}")
    until(lambda: [[client["state"] for client in bridge["clients"]] for bridge in moves.bridges().values()] == [["running"]],
          lambda: f"one bridge, whose client runs: {moves.bridges()}, {context}")
    assert vm.runs(), context
    return "destination" if moved else "source"


BEFORE_THE_SOURCE_KNOWS = [{"word": "offer"}, {"word": "welcome"}, {"word": "early", "count": 3}, {"word": "again"}, {"word": "part"}, {"word": "bytes", "count": 3}, {"word": "part_end", "count": 2},
                           {"word": "description"}, {"word": "description", "delivered": True}, {"word": "have"}]
BEHIND_THAT = [{"word": "have", "delivered": True}, {"word": "go"}, {"word": "go", "delivered": True}, {"word": "awake"}]


@pytest.mark.parametrize("does", ["cut", "receiver", "mover"])
def test_wherever_a_move_is_cut_or_killed_exactly_one_side_goes_on(moves, does):
    vm = plays_a_vm(moves.region)
    for place in BEFORE_THE_SOURCE_KNOWS + BEHIND_THAT:
        fault = {"delivered": False, "does": does, **place}
        before = moves.bridges()[str(moves.region.path)]["pid"]
        ran = moves.move(faults=[fault])
        side = goes_on(moves, ran, fault, vm)
        assert (moves.bridges()[str(moves.region.path)]["pid"] == before) == (side == "source"), f"{fault}: {ran}"
        if place in BEFORE_THE_SOURCE_KNOWS:
            # Killed when it has just heard all, it may have said so.
            assert side == "source" or (does == "receiver" and "delivered" in place), f"{fault}: {ran}"
        elif does != "mover" or place["word"] != "have":  # killed when it has just heard: its bridge may not have been told
            assert side == "destination", f"{fault}: {ran}"
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


def test_a_source_whose_bridge_is_killed_goes_on_with_the_next_one(moves):
    vm = plays_a_vm(moves.region)
    for place in {"word": "part"}, {"word": "part_end", "count": 3}, {"word": "have"}:
        fault = {"delivered": True, "does": "nothing", "pid": moves.region.bridge.proper, **place}
        ran = moves.move(faults=[fault])
        assert goes_on(moves, ran, fault, vm) == "source"
        assert moves.region.bridge.runs()
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


@pytest.mark.parametrize("does, place", [("cut", {"word": "have"}), ("cut", {"word": "go"}), ("mover", {"word": "go"}),
                                         ("receiver", {"word": "go", "delivered": True}), ("receiver", {"word": "awake"})],
                         ids=["before_it_is_heard", "cut_when_decided", "killed_when_decided", "when_told", "when_done"])
def test_the_same_on_the_way_into_another_region(moves, does, place):
    vm, other = plays_a_vm(moves.region), Elsewhere(moves.region.folder / "barcuda-vm2")
    fault = {"delivered": False, "does": does, **place}
    ran = moves.move("vm2", faults=[fault])
    until(lambda: not moves.waits("vm2") and len(moves.bridges()) == 1, lambda: f"one bridge: {moves.bridges()}: {ran}\n{moves.region.log}")
    where, = moves.bridges()
    assert where == str(moves.region.path if place["word"] == "have" else other.path) and (ran.status == 0) == (place["word"] != "have"), ran
    vm.send("" if place["word"] == "have" else where)
    assert vm.wait() == 0 and "right" in vm.out, f"{vm}\n{ran}\n{moves.region.log}"
    other.close()


def test_where_nobody_is_left_to_say_what_was_decided_the_operator_does(moves):
    vm = plays_a_vm(moves.region)
    ran = moves.move(faults=[{"word": "go", "delivered": False, "does": "both"}])
    assert ran.status == -signal.SIGKILL
    assert moves.region.bridge.wait() == 0
    until(lambda: "waits here" in ran.err or moves.waits(), "it waits at the destination")
    assert not moves.bridges()
    ran = run(*moves.receive("region", "--go"))
    assert ran.status == 0 and not moves.waits(), ran
    assert goes_on(moves, ran, "by hand", vm) == "destination"
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


def test_where_nobody_is_left_before_anything_was_decided_the_source_goes_on_and_may_move_again(moves):
    vm = plays_a_vm(moves.region)
    ran = moves.move(faults=[{"word": "have", "delivered": False, "does": "both"}])
    assert ran.status == -signal.SIGKILL
    moves.region.wait_for_log("suspend: given up: the command that ordered it says nothing more")
    moves.region.wait_for_log("channel 0 is resumed")
    assert moves.waits()
    ran = moves.move()
    assert ran.status == 0, ran
    assert goes_on(moves, ran, "again", vm) == "destination"
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


# ---- what is refused ---------------------------------------------------------------------------------------------------
def test_a_destination_that_could_not_go_on_says_so_before_the_source_has_ended(moves):
    vm = plays_a_vm(moves.region)
    other = moves.region.folder / "barcuda-vm2"
    for bridge, why in ((["--gpus", "7"], "its bridge does not go on: .*7"), (["--no-vm", "--device", "soft"], "has 0 MiB, and the suspended region has 1024")):
        ran = moves.move("vm2", bridge=bridge)
        assert ran.status == 1 and re.search(why, ran.err) and not moves.waits("vm2"), ran
        other.write_bytes(b"something" * 4096)
    ran = moves.move("vm2", "--region", "/nowhere/region")
    assert ran.status == 1 and "/nowhere/region" in ran.err, ran
    assert goes_on(moves, ran, "refused", vm) == "source"
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm


def test_what_cannot_be_carried_does_not_move(moves):
    vm, shows = plays_a_vm(moves.region), moves.region.start("shows", BUILD / "e2e/pauses", "shows", stdin=subprocess.PIPE)
    ran = moves.move()
    assert ran.status == 1 and "cudaIpc" in ran.out and "nothing was changed" in ran.err and not moves.waits(), ran
    for program in vm, shows:
        program.send()
        assert program.wait() == 0 and "right" in program.out, program


def test_the_place_of_a_vm_that_waits_or_serves_is_not_taken(moves, region, scratch):
    (scratch / "moved/region/set").mkdir(parents=True)
    (scratch / "moved/region/set/set.json").write_text("a VM of another move")
    ran = moves.move()
    assert ran.status == 1 and "waits for its source's decision" in ran.err and moves.waits(), ran
    assert run(*moves.receive("region", "--drop")).status == 0 and not moves.waits()
    ran = run(*moves.receive("region", "--go"))
    assert ran.status == 1 and "no VM of that name waits here" in ran.err, ran
    other = Program(region.folder, "other", [BUILD / "bin/barcuda-bridge", "--region", region.folder / "barcuda-vm2", "--size", "1G", "--no-vm",
                                             "--device", "soft"])
    until(lambda: len(moves.bridges()) == 2, "the other bridge serves")
    ran = moves.move("vm2")
    assert ran.status == 1 and "a bridge serves this region here already" in ran.err, ran
    other.kill(signal.SIGTERM)


def test_names_and_destinations_are_checked(moves):
    for words, why in ((["vm"], "name the VM and its destination"), (["vm", "ssh://host"], "a destination is"), (["vm", "ssh:///vm"], "a destination is"),
                       (["vm", "ssh://host/../etc"], "is no name"), (["vm", "ssh://host:x/vm"], "a destination is"),
                       (["no-such-vm", "ssh://host/vm"], "there is no VM with the name no-such-vm")):
        ran = run(BARCUDA, "move", *words)
        assert ran.status != 0 and why in ran.err, ran
    ran = run(BARCUDA, "receive", "../vm", input="")
    assert ran.status == 1, ran
    ran = run(*moves.receive("vm"), input="this is not a stream, and has no end of a message")
    assert ran.status == 1 and "barcuda move" in ran.err + ran.out, ran


def test_ssh_gets_one_word_for_the_other_host_s_shell(moves, scratch):
    """There is no other host here: `ssh` is a script that runs the last word by a shell, as a host does."""
    ssh = scratch / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$SAYS"\nfor last; do :; done\nexec /bin/sh -c "$last"\n')
    ssh.chmod(0o755)
    vm = plays_a_vm(moves.region)
    name, = (bridge["name"] for bridge in moves.bridges().values())
    paths = {"PATH": f"{scratch}:{BARCUDA.parent}:{os.environ['PATH']}", "SAYS": scratch / "says", "XDG_DATA_HOME": scratch}
    ran = run(BARCUDA, "move", name, f"ssh://user@host:2222/{name}", "--no-vm", "--device", "soft", env=paths)
    assert ran.status == 0, ran
    said = (scratch / "says").read_text().splitlines()
    assert said[-4:] == ["2222", "--", "user@host", f"barcuda receive '{name}' '--no-vm' '--device' 'soft'"]
    assert (scratch / "barcuda/moved" / name / "awake").exists()
    vm.send()
    assert vm.wait() == 0 and "right" in vm.out, vm
