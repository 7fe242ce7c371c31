# SPDX-License-Identifier: Apache-2.0
"""How clients under Wine end, and that they live side by side with others. The bridge sees none of their processes: a library that is unloaded
gives its channel back, and of a process that was killed the bridge finds the lock free."""
import json
import re
import signal

import pytest

from e2e.flat import BARCUDA, BUILD, Region, needs_soft, succeed, until
from windows.under_wine import client_of, need_built, serving, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
WINDOWS, LINUX = BUILD / "windows", BUILD / "windows/native"

region = pytest.fixture(serving)


def start(region, name="lives/waits"):
    program = region.background(name.replace("/", "-"), "wine", WINDOWS / f"{name}.exe", env={**client_of(region), "LD_PRELOAD": None, "LD_LIBRARY_PATH": None},
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
    theirs = start(region, "lives/fills")
    ours = region.start("ours", LINUX / "lives/fills", stdin=-1)
    assert theirs.out == ours.out.replace("\n", "\r\n") and "of 100663296" in ours.out, (theirs.out, ours.out)
    for program in theirs, ours:
        end(program)


def test_the_interrupt_of_a_console_ends_it_and_its_channel(region):
    program = start(region)
    program.send_signal(signal.SIGINT)
    program.wait()
    region.wait_for_log(r"channel \d+: reclaimed.*waits\.exe")


# ---- programs that do not end as they should, or do not go as the library goes ---------------------------------------------------------
def books(region):
    """What `barcuda ps --json` says of its bridge."""
    return next(bridge for bridge in json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"] if bridge["region"] == str(region.path))


@pytest.fixture(scope="module")
def limited():
    """A region whose clients have 96 MiB of device memory together, and one that stays: all others start and end beside it."""
    need_built(WINDOWS / "ends/ends.exe")
    region = Region()
    region.serve("--guest-device-memory", "96M")
    region.neighbour = start(region)
    region.alone = books(region)
    yield region
    end(region.neighbour)
    region.close()


def blocks_in(said):
    return int(re.search(r"(\d+) blocks", said)[1])


def are_right(region, blocks):
    """The neighbour is alone again, with no more than it had, and the next program gets as much memory."""
    def alone():
        now = books(region)
        return now["channels"] == region.alone["channels"] and now["region_memory"] == region.alone["region_memory"] and \
            [client["program"] for client in now["clients"]] == ["waits.exe"]
    until(alone, lambda: f"the neighbour is alone: {books(region)}")
    assert blocks_in(wine(WINDOWS / "lives/fills.exe", env=client_of(region))) == blocks


@pytest.mark.parametrize("way, status", [("crash", 5), ("abort", 3), ("terminate", 9), ("return", 6), ("exit", 7)])
def test_the_books_are_right_whatever_ends_a_program(limited, way, status):
    variables = client_of(limited)
    variables["WINEDLLOVERRIDES"] += ";winedbg.exe="  # no debugger, which ends a program in its own way
    blocks = blocks_in(wine(WINDOWS / "ends/ends.exe", way, status=status, env=variables))
    assert blocks == 5
    are_right(limited, blocks)


@pytest.mark.parametrize("first", ["driver", "nvml"])
def test_the_driver_may_be_loaded_again(limited, first):
    assert wine(WINDOWS / "ends/reloads.exe", first, env=client_of(limited)) == "passed\n"
    are_right(limited, 5)


def test_calls_may_come_from_fibers(limited):
    assert wine(WINDOWS / "ends/fibers.exe", env=client_of(limited)) == "passed\n"
    are_right(limited, 5)


def test_a_program_that_answers_an_interrupt_goes_on(limited):
    program = start(limited, "ends/interrupts")
    program.send_signal(signal.SIGINT)
    program.wait_for("goes on with 42")
    assert len(books(limited)["clients"]) == 2
    program.send_signal(signal.SIGINT)
    program.wait()
    are_right(limited, 5)
