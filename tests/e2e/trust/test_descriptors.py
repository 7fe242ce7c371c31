# SPDX-License-Identifier: Apache-2.0
"""Memory as a descriptor: a process of the region that has it opens the memory, no other process does, and no token is guessed. The bridge keeps
the driver's descriptor as long as a process has the program's and its maker lives; a process that has mapped the memory keeps it."""
import os
import re
import subprocess

from e2e.flat import BUILD, DEVICE, RUN, run

GIVES = BUILD / "e2e/gives"


def what_is(file):
    try:
        return os.readlink(file)
    except FileNotFoundError:  # closed meanwhile
        return ""


def kept(bridge):
    """How many descriptors of memory the bridge has."""
    folder = f"/proc/{bridge.proper}/fd"
    return sum("barcuda-device-memory" in what_is(f"{folder}/{fd}") for fd in os.listdir(folder))


def keeps(bridge, count):
    if DEVICE == "soft":  # what other drivers' descriptors look like is theirs
        assert kept(bridge) == count


def start(region, name, part):
    """A program that goes on when it gets a line."""
    return region.start(name, GIVES, part, region.folder, stdin=subprocess.PIPE)


def test_processes_of_the_region_that_have_the_descriptor_open_the_memory_and_no_others(region):
    bridge = region.serve()
    start(region, "owner", "give")
    keeps(bridge, 1)
    ran = region.client(GIVES, "take", region.folder)
    assert ran.out == "memory 42\n", f"another process of the region: {ran}"
    ran = region.client(GIVES, "forge", region.folder)
    assert ran.status == 0 and ran.out == "the same 1\nforged ones refused\n", f"forged tokens: {ran}"
    ran = run(*RUN, GIVES, "take", region.folder)
    assert re.search("^memory refused", ran.said, re.M), f"a process of another region opened it: {ran}"


def test_the_descriptor_keeps_the_memory_until_it_is_closed_everywhere(region):
    bridge = region.serve()
    owner = start(region, "owner", "give")
    holder = start(region, "holder", "hold")
    owner.send()
    owner.wait_for("let go, 1")
    keeps(bridge, 1)
    holder.send()
    holder.wait_for("^descriptor")
    assert holder.out == "running\nmemory 42\ndescriptor 1\n", f"what only another process has the descriptor of: {holder}"
    holder.kill()
    owner.send()
    owner.wait_for("let go, 2")
    keeps(bridge, 0)


def test_what_is_mapped_stays_and_the_descriptor_of_a_process_that_was_killed_leads_nowhere(region):
    bridge = region.serve()
    owner = start(region, "owner", "give")
    keeper = start(region, "keeper", "hold")
    keeps(bridge, 1)
    owner.kill()
    region.wait_for_log(f"reclaimed.*pid {owner.pid},")
    keeps(bridge, 0)
    keeper.send()
    keeper.wait_for("^descriptor")
    assert re.search("^memory 42", keeper.out, re.M), f"what was mapped is lost: {keeper}"
    assert re.search("^descriptor refused", keeper.out, re.M), f"a descriptor outlives its process: {keeper}"
