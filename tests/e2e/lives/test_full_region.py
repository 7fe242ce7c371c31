# SPDX-License-Identifier: Apache-2.0
"""A program that takes all the region before its first kernel still runs: code, copies, streams and events find room."""
import pytest

from e2e.flat import BUILD, RUN, run


def with_region(size):
    return [*RUN[:-1], "--region-size", size, "--"]


def test_managed_variables_find_room_in_a_small_region():
    ran = run(*with_region("128M"), BUILD / "programs/managed_variables")
    assert ran.status == 0, ran


@pytest.mark.parametrize("size, heap", [("128M", {}), ("256M", {"BARCUDA_HEAP": "always", "BARCUDA_THRESHOLD": "0"})],
                         ids=["malloc has it all", "a heap that is always on"])
def test_a_program_runs_that_has_taken_all_the_region(size, heap):
    ran = run(*with_region(size), "env", *(f"{name}={value}" for name, value in heap.items()), BUILD / "programs/crowded")
    assert ran.status == 0 and "PASSED" in ran.said, ran
    assert "the region is full" in ran.said, f"the region was never full, so nothing was shown: {ran}"
