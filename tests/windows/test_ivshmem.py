# SPDX-License-Identifier: Apache-2.0
"""ivshmem devices under Wine, as virtio-win's driver gives them: the whole memory at an address that it chooses, to one process at a time. The
driver is the tests' own (tests/windows/device/setupapi.c), which lies beside each program here: what it says of ours is said of a driver that
answers as virtio-win's public source does. Whether virtio-win's does, and what Windows' kernel does, a Windows VM has to show."""
import json
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, Region, needs_soft, succeed, until
from windows.under_wine import DLLS, at, environment, need_built, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
WINDOWS = BUILD / "windows"
SETUPAPI = WINDOWS / "device/setupapi.dll"
PLACES = "1b0c8d10000", "680000010000"  # where kernels put memory: multiples of 64 KiB


class Guest:
    """A machine with devices, the programs that run there, and what they say."""

    def __init__(self, folder):
        self.folder, self.regions, self.devices = folder, [], []
        for program in SETUPAPI, WINDOWS / "lives/waits.exe", WINDOWS / "programs/add_one.exe", WINDOWS / "ends/held.exe":
            need_built(program)
            shutil.copy(program, folder)

    def add(self, place=PLACES[0], error=None, served=True):
        """A device with a region of its own."""
        region = Region()
        self.regions.append(region)
        if served:
            region.serve()
        self.devices.append(f"{at(region.path)},{place}" + (f",{error}" if error else ""))
        return region

    def environment(self, name="ivshmem"):
        variables = environment({"BARCUDA_REGION": name, "WINEPATH": at(DLLS), "IVSHMEM": ";".join(self.devices)})
        variables["WINEDLLOVERRIDES"] += ";setupapi=n,b"  # the program's, where it has one
        return variables

    def run(self, program="add_one.exe", *words, name="ivshmem", **how):
        return wine(self.folder / program, *words, env=self.environment(name), **how)

    def start(self, program="waits.exe", number=0):
        started = self.regions[0].background(f"{program}{number}", "wine", self.folder / program, stdin=-1, env={
            **self.environment(), "LD_PRELOAD": None, "LD_LIBRARY_PATH": None})
        started.wait_for("running")
        return started

    def close(self):
        for region in self.regions:
            region.close()


@pytest.fixture
def guest():
    folder = Path(tempfile.mkdtemp(prefix="barcuda-test-"))
    one = Guest(folder)
    yield one
    one.close()
    shutil.rmtree(folder)


def clients(region):
    bridges = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
    return [client["program"] for bridge in bridges if bridge["region"] == str(region.path) for client in bridge["clients"]]


def in_use(region):
    bridges = json.loads(succeed(BARCUDA, "ps", "--json"))["bridges"]
    return next(bridge["channels"]["in_use"] for bridge in bridges if bridge["region"] == str(region.path))


@pytest.mark.parametrize("place", PLACES)
def test_the_memory_may_lie_where_the_driver_puts_it(guest, place):
    guest.add(place)
    assert guest.run() == "passed\n"
    guest.regions[0].wait_for_log("channel 0: reclaimed.*add_one")


@pytest.mark.parametrize("place", ["2b0000010000", "c00000000"], ids=["the GPU's own", "low"])
def test_a_place_that_cannot_serve_is_refused_by_its_address(guest, place):
    guest.add(place)
    said = guest.run(status=1, errors=True)
    assert f"0x{place}" in said and "ivshmem:0" in said, said


def test_a_second_process_takes_the_next_device_and_a_third_is_told(guest):
    for place in PLACES:
        guest.add(place)
    first, second = guest.start(number=1), guest.start(number=2)
    assert [clients(region) for region in guest.regions] == [["waits.exe"]] * 2
    said = guest.run(status=1, errors=True)
    assert "none of 2 regions is free: other processes of this guest have 2, no bridge serves 0, and 0 cannot be opened" in said, said
    said = guest.run(status=1, errors=True, name="ivshmem:1")
    assert re.search(r"ivshmem:1: another process of this guest has it.*end that process, or give the VM one more ivshmem device", said), said
    first.end_input()
    assert first.wait() == 0
    assert guest.run() == "passed\n"
    second.end_input()
    assert second.wait() == 0


def test_the_channel_of_a_killed_process_is_back_with_the_next(guest):
    region = guest.add()
    program = guest.start()
    program.kill()
    assert in_use(region) == 1  # a bridge sees no process of a VM
    assert guest.run() == "passed\n"
    region.wait_for_log(r"channel 0: reclaimed.*waits\.exe")
    until(lambda: in_use(region) == 0, lambda: clients(region))
    assert guest.run() == "passed\n"


def test_a_device_whose_region_no_bridge_serves_is_passed_over(guest):
    unserved = guest.add(served=False)
    unserved.path.write_bytes(b"")
    with unserved.path.open("r+b") as file:
        file.truncate(1 << 30)
    guest.add(PLACES[1])
    assert guest.run() == "passed\n"


@pytest.mark.parametrize("error, said", [
    (21, "ivshmem:0: the device has no memory yet; start its bridge on the host, and then the VM"),
    (1, r"ivshmem:0: its driver does not know the request for its memory \(Windows error 1\); install the ivshmem driver"),
    (1784, r"ivshmem:0: its driver does not know the request for its memory \(Windows error 1784\)"),
    (1117, r"ivshmem:0: Windows could not map its memory \(Windows error 1117\); use a region of 1 or 2 GiB"),
    (5, "ivshmem:0: its driver refuses its memory: Windows error 5")])
def test_what_the_driver_refuses_is_told_with_what_to_do(guest, error, said):
    guest.add(error=error, served=False).path.write_bytes(b"")
    assert re.search(said, text := guest.run(status=1, errors=True)), text


def test_a_device_that_is_not_there_is_named(guest):
    guest.add()
    said = guest.run(status=1, errors=True, name="ivshmem:1")
    assert "ivshmem:1: there is no such ivshmem device" in said, said
    guest.devices.clear()
    said = guest.run(status=1, errors=True)
    assert "this VM has no ivshmem device" in said, said


def test_doctor_looks_at_each_device(guest):
    guest.add(error=21, served=False).path.write_bytes(b"")
    region = guest.add(PLACES[1])
    for file in DLLS.iterdir():
        shutil.copy(file, guest.folder)
    said = guest.run("barcuda.exe", "doctor", status=1)
    assert "2 ivshmem devices with virtio-win's driver" in said and "ivshmem:0: the device has no memory yet" in said, said
    assert re.search(r"ok +region ivshmem:1: 1024 MiB at 0x680000010000.*\n.*ok +a bridge serves it", said), said
    guest.devices.pop(0)
    assert "All is well." in guest.run("barcuda.exe", "doctor")
    assert in_use(region) == 0


def test_a_process_ends_whatever_its_threads_held(guest):
    region = guest.add()
    assert guest.run("held.exe") == "held\n"
    region.wait_for_log(r"channel 0: reclaimed.*held\.exe")
