# SPDX-License-Identifier: Apache-2.0
"""A profiler in the program sees what the GPU does, by the host's CUPTI (tests/programs/own_profiler.cu, which all programs' tests run); what is not
served says so, and so does a host without CUPTI."""
import shutil
import sys

import pytest

from e2e.flat import BRIDGE, BUILD, LIBRARIES, needs_soft

PROFILER = BUILD / "programs/own_profiler"


@needs_soft("the toolkit's CUPTI is on a host with a GPU")
def test_what_is_not_served_says_so(region):
    region.serve()
    ran = region.client(PROFILER, "guest")
    assert ran.status == 0 and "PASSED" in ran.out, ran
    assert ran.err.count("barcuda: cuptiDeviceGetNumEventDomains: not supported: ") == 1, ran


@pytest.mark.parametrize("name", ["libcupti.so.12", "libcupti.so.13"])
def test_programs_that_open_cupti_by_name_find_it(region, name):
    region.serve()
    ran = region.client(sys.executable, "-c", f"import ctypes; ctypes.CDLL('{name}').cuptiActivityEnable(10) and exit(1); print('found')")
    assert ran.out == "found\n", ran


@needs_soft("the toolkit's CUPTI is on a host with a GPU")
def test_a_host_without_cupti_says_what_to_install(region, tmp_path):
    bridge, soft = tmp_path / "bin/barcuda-bridge", tmp_path / "lib/barcuda-soft"
    for folder in bridge.parent, soft:
        folder.mkdir(parents=True)
    shutil.copy(BRIDGE, bridge)
    for library in (LIBRARIES / "barcuda-soft").iterdir():
        if "cupti" not in library.name:
            shutil.copy(library, soft)
    region.serve(program=bridge)
    ran = region.client(PROFILER)
    assert ran.status != 0, ran
    assert ran.err.count("the host has no CUPTI for it: install libcupti.so.13 there") == 1, ran
    region.wait_for_log("a client's profiler asks for CUPTI: there is no libcupti.so.13")
