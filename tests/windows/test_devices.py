# SPDX-License-Identifier: Apache-2.0
"""Several regions, of which a process takes the first free one, and two libraries of a process that have one together. In a VM regions are ivshmem
devices, which are one process's at a time; here they are files, of which another process has some for itself."""
import re

import pytest

from e2e.flat import BUILD, needs_soft
from windows.under_wine import at, client_of, need_built, serving, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
DEVICES, ADD_ONE = BUILD / "windows/devices", BUILD / "windows/programs/add_one.exe"

region = pytest.fixture(serving)


@pytest.fixture
def other(region):
    """A file that is no region, or whose bridge has not come."""
    file = region.folder / "other"
    with file.open("wb") as out:
        out.truncate(region.path.stat().st_size)
    return file


def with_regions(region, *paths):
    return client_of(region) | {"BARCUDA_REGION": ";".join(map(at, paths)), "BARCUDA_LOG": "debug"}


def holder(region, *paths):
    """A process that has these files for itself."""
    program = region.background("holds", "wine", DEVICES / "holds.exe", *map(at, paths), env={**client_of(region), "LD_PRELOAD": None,
                                                                                          "LD_LIBRARY_PATH": None}, stdin=-1)
    program.wait_for("running")
    return program


def test_the_first_free_one_is_taken(region, other):
    need_built(DEVICES / "holds.exe", ADD_ONE)
    program = holder(region, other)
    assert wine(ADD_ONE, env=with_regions(region, other, region.path)) == "passed\n"
    program.end_input()
    program.wait()


def test_one_that_no_bridge_serves_is_passed_over(region, other):
    need_built(ADD_ONE)
    assert wine(ADD_ONE, env=with_regions(region, other, region.path)) == "passed\n"
    assert wine(ADD_ONE, env=with_regions(region, region.folder / "missing", region.path)) == "passed\n"


def test_that_none_is_free_is_said_with_what_there_is(region, other):
    need_built(DEVICES / "holds.exe", ADD_ONE)
    program = holder(region, region.path)
    said = wine(ADD_ONE, status=1, env=with_regions(region, region.path, other, region.folder / "missing"), errors=True)
    assert "none of 3 regions is free: other processes of this guest have 1, no bridge serves 1, and 1 cannot be opened" in said, said
    program.end_input()
    program.wait()


def test_the_only_one_that_another_process_has_is_refused_with_what_to_do(region):
    need_built(DEVICES / "holds.exe", ADD_ONE)
    program = holder(region, region.path)
    said = wine(ADD_ONE, status=1, env=with_regions(region, region.path), errors=True)
    assert re.search(r"region: another process of this guest has it.*; end that process, or give the VM one more ivshmem device", said), said
    program.end_input()
    program.wait()


@pytest.mark.parametrize("first", ["driver", "nvml"])
def test_both_libraries_of_a_process_share_its_mapping(region, first):
    need_built(DEVICES / "both.exe")
    assert wine(DEVICES / "both.exe", first, env=client_of(region)) == "1 mapped\n"
