# SPDX-License-Identifier: Apache-2.0
"""How clients under Wine end, and that they live side by side with others. The bridge sees none of their processes: a library that is unloaded
gives its channel back, and of a process that was killed the bridge finds the lock free."""
import re
import signal

import pytest

from e2e.flat import BUILD, needs_soft
from windows.under_wine import client_of, serving, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
WINDOWS, LINUX = BUILD / "windows", BUILD / "windows/native"

region = pytest.fixture(serving)


def start(region, name="waits"):
    program = region.background(name, "wine", WINDOWS / f"lives/{name}.exe", env={**client_of(region), "LD_PRELOAD": None, "LD_LIBRARY_PATH": None},
                                stdin=-1, start_new_session=True)
    program.wait_for("running")
    return program


def end(program):
    program.end_input()
    assert program.wait() == 0, program


def test_a_program_that_ends_gives_its_channel_back(region):
    end(start(region))
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe.*it left")


def test_of_a_killed_program_the_bridge_takes_the_channel_back(region):
    start(region).kill()
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe")


def test_two_programs_at_a_time_have_a_channel_each(region):
    program = start(region)
    assert wine(WINDOWS / "programs/add_one.exe", env=client_of(region)) == "passed\n"
    assert not re.search(r"reclaimed.*waits\.exe", region.log)
    end(program)


def test_windows_and_linux_clients_side_by_side_have_their_limits_each(region):
    region.serve("--client-device-memory", "96M")
    theirs = start(region, "fills")
    ours = region.start("ours", LINUX / "lives/fills", stdin=-1)
    assert theirs.out == ours.out.replace("\n", "\r\n") and "of 100663296" in ours.out, (theirs.out, ours.out)
    for program in theirs, ours:
        end(program)


def test_the_interrupt_of_a_console_ends_it_and_its_channel(region):
    program = start(region)
    program.send_signal(signal.SIGINT)
    program.wait()
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe")
