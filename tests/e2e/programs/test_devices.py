# SPDX-License-Identifier: Apache-2.0
"""A program with all devices that there are: waits, copies and resets are those of the device that is meant. The software GPU shows four for
it."""
import re

import pytest

from e2e.flat import BUILD, DEVICE, RUN, run, succeed

ALL = {"BARCUDA_SOFT_DEVICES": "4"} if DEVICE == "soft" else {}
DEVICES = BUILD / "programs/devices"


@pytest.fixture(scope="module")
def several():
    info = succeed(*RUN, BUILD / "programs/device_info", env=ALL)
    if info.startswith("1 device,"):
        assert DEVICE != "soft", info
        pytest.skip("there is one device")


@pytest.mark.usefixtures("several")
def test_each_device_does_what_it_is_meant_to_do():
    ran = run(*RUN, DEVICES, env=ALL, patience=300)
    assert ran.status == 0 and "PASSED" in ran.said, ran
    assert re.search(r"^(\d+) of \1 devices$", ran.said, re.M), f"not all devices: {ran}"


@pytest.mark.usefixtures("several")
def test_blocks_are_refused_for_several_devices():
    ran = run(*RUN[:-1], "--device-memory", "blocks", "--", DEVICES, env=ALL)
    assert ran.status != 0 and "--device-memory blocks serves VMs of one GPU" in ran.said, ran


@pytest.mark.usefixtures("several")
def test_a_client_begins_with_any_device_where_no_worker_waits(region):
    """The waiting worker has the first device ready."""
    region.serve("--no-vm", "--warm", "0", env=ALL)
    ran = region.client(DEVICES, "1", "0", env=ALL, patience=300)
    assert ran.status == 0, ran
