# SPDX-License-Identifier: Apache-2.0
"""Every program of tests/programs passes with no VM; one that has nothing to show on this device says so and ends with 77."""
import re

import pytest

from e2e.flat import BUILD, RUN, TOP, run

PROGRAMS = sorted(file.stem for file in (TOP / "tests/programs").glob("*.cu"))
NOTHING_TO_SHOW = 77


def passes(program, *options, **variables):
    ran = run(*RUN[:-1], *options, "--", BUILD / "programs" / program, env=variables, patience=580)
    if ran.status == NOTHING_TO_SHOW:
        pytest.skip(re.search(".*skipped.*", ran.said)[0])
    assert ran.status == 0 and "PASSED" in ran.said, ran


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_passes(program):
    passes(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_passes_on_blocks(program):
    passes(program, "--device-memory", "blocks")


@pytest.mark.parametrize("program", ["managed", "managed_process"])
def test_managed_memory_in_the_region_passes(program):
    passes(program, BARCUDA_MANAGED="host")


@pytest.mark.parametrize("queues", [1, 8])
def test_functions_and_managed_memory_with_two_homes_pass_where_streams_share_queues(queues):
    """As a GPU's do: what waits for a function of the program's holds other streams up, but not the function."""
    passes("managed_functions", BARCUDA_SOFT_QUEUES=queues)
