# SPDX-License-Identifier: Apache-2.0
"""Windows programs of the driver's API, of the runtime's (of CUDA 13 and of 12) and of NVML, under Wine, are clients of a Linux bridge with the
software GPU; the same sources, built for Linux, print the same on the same region."""
import pytest

from e2e.flat import BUILD, TOP, needs_soft
from windows.under_wine import client_of, serving, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
FOLDERS = "programs", "runtime", "runtime12", "nvml"
PROGRAMS = [f"{folder}/{file.stem}" for folder in FOLDERS for file in sorted((TOP / "tests/windows" / folder).glob("*.c"))]

region = pytest.fixture(scope="module")(serving)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_prints_on_linux(region, name):
    theirs = wine(BUILD / "windows" / f"{name}.exe", env=client_of(region))
    ours = region.client(BUILD / "windows/native" / name)
    assert ours.status == 0, ours
    assert theirs.rstrip().endswith("passed")
    assert theirs == ours.out
