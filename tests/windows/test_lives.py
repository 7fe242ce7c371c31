# SPDX-License-Identifier: Apache-2.0
"""How clients under Wine end. The bridge sees none of their processes: a library that is unloaded gives its channel back, and what a process that
was killed has left the next one gives back, which finds its lock free."""
import os
import re
import signal

import pytest

from e2e.flat import BUILD, Region, children, needs_soft, until
from windows.under_wine import client_of, need_built, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
PROGRAMS = BUILD / "windows/programs"


@pytest.fixture(name="region")
def serving_region():
    need_built(PROGRAMS / "waits.exe")
    region = Region()
    region.serve()
    yield region
    region.close()


def start(region):
    program = region.background("waits", "wine", PROGRAMS / "waits.exe", env={**client_of(region), "LD_PRELOAD": None, "LD_LIBRARY_PATH": None},
                                stdin=-1, start_new_session=True)
    program.wait_for("running")
    return program


def test_a_program_that_ends_gives_its_channel_back(region):
    program = start(region)
    program.end_input()
    assert program.wait() == 0, program
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe.*it left")


def test_what_a_killed_program_has_left_the_next_one_gives_back(region):
    program = start(region)
    program.kill()
    assert not re.search("reclaimed", region.log)
    assert wine(PROGRAMS / "add_one.exe", env=client_of(region)) == "passed\n"
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe")


def test_two_programs_at_a_time_have_a_channel_each(region):
    program = start(region)
    assert wine(PROGRAMS / "add_one.exe", env=client_of(region)) == "passed\n"
    assert not re.search(r"reclaimed.*waits\.exe", region.log)
    program.end_input()
    assert program.wait() == 0, program


def test_a_linux_client_is_served_beside_it(region):
    program = start(region)
    ours = region.client(BUILD / "windows/native/programs/add_one")
    assert ours.status == 0, ours
    program.end_input()
    assert program.wait() == 0, program


def test_the_interrupt_of_a_console_ends_it_and_its_channel(region):
    program = start(region)
    program.send_signal(signal.SIGINT)
    program.wait()
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe")
