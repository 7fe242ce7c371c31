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

# `barcuda ps` ends with 1 where a bridge of another test hangs.
pytestmark = pytest.mark.usefixtures("own_shm")
F_OFD_SETLK = 37


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
                         (["--as", "../clone"], "no name of a VM"),
                         (["--as", "clone", "--name", "other"], "--as excludes --name|--name excludes --as")):
        ran = run(BARCUDA, "wake", *options, scratch / "set", "--device", "soft")
        assert ran.status != 0 and re.search(why, ran.err), ran
    assert taken.read_text() == "something"
    woken(scratch / "set", "--as", "clone").wait_for("awake, with 0 clients")
    assert "clone " in run(BARCUDA, "ps").out and (blocks.folder / "barcuda-clone").exists()
