# SPDX-License-Identifier: Apache-2.0
"""Real programs with their whole heap in the region of a bridge: the same results, and every extent and channel is given back once they have
ended.

  PROGRAMS="NAME ..."  these of tests/heap/programs.sh; default: bash perl python_data gxx make git
"""
import os
import re

import pytest

from e2e.flat import BARCUDA, BUILD, LIBRARIES, TOP, run, until, written

PROGRAMS = (os.environ.get("PROGRAMS") or "bash perl python_data gxx make git").split()
NOT_INSTALLED = 77
NOTHING = 0, 0
# What programs.sh runs after each program and threshold. A client that has just ended is noticed within milliseconds.
GIVEN_BACK = f"""#!/bin/sh
for _ in $(seq 500); do
    said=$({BARCUDA} doctor | grep 'in use: ')
    case $said in *'in use: 0 of '*', 0 of '*) exit ;; esac
    sleep 0.02
done
echo "$said"
exit 1
"""
# Holds a block of 300 kB, and says what doctor says meanwhile.
HOLDS = f"""big=$(head -c 300000 /dev/zero | tr '\\0' x); {BARCUDA} doctor"""


def in_use(said):
    """Channels and MiB of extents, as doctor says."""
    found = re.search("in use: ([0-9]+) of .*, ([0-9]+) of ", said)
    assert found, said
    return int(found[1]), int(found[2])


@pytest.fixture
def served(region):
    """A region of which nothing is in use."""
    region.serve(size="4G")
    given_back(region)
    return region


def doctor(region):
    return run(BARCUDA, "doctor", env=region.named).out


def given_back(region):
    until(lambda: in_use(doctor(region)) == NOTHING, lambda: f"all is given back: {doctor(region)}")


def test_while_a_program_holds_a_block_the_bridges_records_say_so(served):
    ran = served.client("bash", "-c", HOLDS, env={"BARCUDA_HEAP": "always"})
    assert all(used > 0 for used in in_use(ran.out)), ran
    given_back(served)


@pytest.mark.parametrize("threshold", ["0", "64K"])
def test_stress_gives_everything_back(served, threshold):
    ran = served.client(BUILD / "heap/stress", "2", env={"BARCUDA_HEAP": "always", "BARCUDA_THRESHOLD": threshold})
    assert ran.status == 0, ran
    given_back(served)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_the_same_and_gives_everything_back(served, scratch, program):
    after = written(scratch / "after", GIVEN_BACK)
    after.chmod(0o755)
    ran = run(TOP / "tests/heap/programs.sh", LIBRARIES / "libbarcuda.so", program, env={**served.named, "AFTER": after}, patience=3600)
    if ran.status == NOT_INSTALLED:
        pytest.skip(ran.said.strip())
    assert ran.status == 0, ran
    given_back(served)
