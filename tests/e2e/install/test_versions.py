# SPDX-License-Identifier: Apache-2.0
"""A library and a bridge of different days. What the bridge lacks answers by name, and no program that does without it notices; a command's
number is the bridge's; what no program can do without, other packets and another layout are refused, with the side that is to be upgraded;
and a bridge takes over no client that has read another one's rows."""
import re
import shutil
import signal

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, DEVICE, TOP, run, succeed, until

VERSION = (TOP / "VERSION").read_text().strip()
FACTS, ROWS = BUILD / "e2e/stream_facts", BUILD / "e2e/rows"
LACKING = "cuStreamGetPriority", "cuMemsetD2D8Async"
NOT_SUPPORTED = "cudaErrorNotSupported"
PACKETS, LAYOUT = 16, 8  # where the header has them


class Days:
    """A region whose programs run under a library that another day's build would have made."""

    def __init__(self, region):
        self.region = region
        region.serve("--no-vm")

    def facts(self):
        """What a program says of its stream's flags, of its priority, and of a memset of rows; and what the library says."""
        ran = self.region.client(FACTS)
        assert ran.status == 0 and "PASSED" in ran.out.splitlines(), ran
        return ran

    def refused(self, *words):
        """The client says each of them, and CUDA says that there is no device."""
        ran = self.region.client(FACTS)
        assert ran.status != 0, f"a program ran where {words} was expected: {ran}"
        for word in words:
            assert word in ran.said, ran

    def write(self, offset, byte):
        with open(self.region.path, "r+b") as file:
            file.seek(offset)
            file.write(bytes([byte]))


@pytest.fixture
def days(region):
    return Days(region)


@pytest.fixture
def priority(days):
    """The priority that the program's stream has."""
    ran = days.facts()
    assert not ran.err, f"said of the same version: {ran}"
    match = re.search(r"^flags cudaSuccess 1, priority cudaSuccess (-?\d+) of (-?\d+), rows cudaSuccess$", ran.out, re.M)
    assert match and match[1] == match[2], ran
    return match[1]


@pytest.mark.parametrize("program", [BARCUDA, BRIDGE], ids=lambda path: path.name)
def test_programs_say_their_version(program):
    said = succeed(program, "--version")
    assert re.fullmatch(f"{re.escape(VERSION)}, region layout [0-9]*, packets [0-9]*\n", said), said


def test_commands_have_the_bridges_numbers(days, priority):
    """A library that finds two of its rows in each other's place: each command goes where the bridge's table says."""
    days.region.change_library("swap", "cuStreamGetFlags", "cuStreamGetPriority")
    line = f"flags cudaSuccess {priority}, priority cudaSuccess 1 of {priority}, rows cudaSuccess"
    assert line in (ran := days.facts()).out.splitlines(), ran


def test_a_call_and_a_posted_command_that_a_bridge_lacks_answer_by_name_once(days, priority):
    days.region.change_library("other", *LACKING)
    ran = days.facts()
    assert f"flags cudaSuccess 1, priority {NOT_SUPPORTED} 77 of {priority}, rows {NOT_SUPPORTED}" in ran.out.splitlines(), ran
    for name in LACKING:
        line = f"barcuda: {name} is not supported by this bridge ({VERSION}): upgrade barcuda-bridge on the host"
        assert ran.err.splitlines().count(line) == 1, ran


@pytest.mark.parametrize("program", ["vector_add", "device_info", "two_streams", "graph_capture"])
def test_programs_that_do_without_a_command_do_not_notice_that_it_is_missing(days, program):
    days.region.change_library("other", *LACKING)
    ran = days.region.client(BUILD / "programs" / program)
    assert ran.status == 0, ran


def test_doctor_names_the_commands_that_a_bridge_lacks(days):
    (days.region.folder / "bin").mkdir()
    barcuda = shutil.copy(BARCUDA, days.region.folder / "bin")
    succeed(ROWS, barcuda, "other", *LACKING)
    ran = run(barcuda, "doctor", env=days.region.named)
    for name in LACKING:
        assert re.search(rf"that bridge lacks 2 commands .*[ ,]{name}\b", ran.out), ran


def test_no_program_waits_for_a_command_that_its_bridge_lacks(days):
    """A program that needs the command, whichever it is, ends by an error that says why."""
    for name in succeed(ROWS, "names").split():
        if name.startswith(("cublas", "curand")):
            continue
        days.region.change_library("other", name)
        ran = days.region.client(BUILD / "programs/two_streams")
        assert 0 <= ran.status < 124, f"without {name}: {ran}"
        assert ran.status == 0 or re.search(f"barcuda: {name} is not supported by this bridge|the bridge .* has no {name} as this library",
                                            ran.said), f"without {name}: {ran}"


def test_what_every_program_needs_is_refused_at_once(days):
    days.region.change_library("other", "write_fence")
    days.refused("has no write_fence as this library", "upgrade barcuda-bridge on the host")


@pytest.mark.parametrize("where, version, words", [
    (PACKETS, 0, ["packet version 0,", "upgrade barcuda-bridge on the host"]),
    (PACKETS, 255, ["packet version 255,", "upgrade Barcuda in this guest"]),
    (LAYOUT, 255, ["layout version 255,", "upgrade Barcuda in this guest, library and kernel module"]),
    (LAYOUT, 5, ["layout version 5,", "upgrade barcuda-bridge on the host"])], ids=["older packets", "newer packets", "newer layout", "older layout"])
def test_other_packets_and_layouts_are_refused_with_the_side_to_upgrade(days, where, version, words):
    days.write(where, version)
    days.refused(*words)


def test_a_bridge_takes_over_no_region_of_another_layout_but_overwrites_it_where_it_is_told_to(days):
    days.write(LAYOUT, 5)
    days.region.stop()
    ran = run(BRIDGE, "--region", days.region.path, "--device", DEVICE)
    assert ran.status != 0 and re.search("layout is number 5.*--overwrite", ran.err), ran
    days.region.serve("--overwrite")
    days.facts()


def test_a_client_that_has_read_another_bridges_rows_is_not_taken_over(days, priority):
    """A bridge of another version (it is stopped) is there when a program starts, then goes, and this bridge comes: its numbers are others."""
    region = days.region
    region.bridge.send_signal(signal.SIGSTOP)
    succeed(ROWS, region.path, "swap", "cuStreamGetFlags", "cuStreamGetPriority")

    def opened():
        return succeed(ROWS, region.path, "opened")
    before = opened()
    program = region.background("program", FACTS)
    until(lambda: opened() != before or not program.runs(), "the program has opened the region")
    program.send_signal(signal.SIGSTOP)  # it would not wait for a bridge forever
    assert program.runs(), program
    region.bridge.kill()
    region.serve("--no-vm")
    program.send_signal(signal.SIGCONT)
    assert program.wait() != 0, f"a program was served with another bridge's numbers: {program}"
    program.wait_for("the bridge was replaced by one of another version")
    assert f"flags cudaSuccess 1, priority cudaSuccess {priority} of {priority}, rows cudaSuccess" in days.facts().out
