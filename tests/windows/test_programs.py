# SPDX-License-Identifier: Apache-2.0
"""Programs of the driver API for Windows, under Wine, are clients of a Linux bridge with the software GPU; the same sources, built for Linux,
print the same on the same region."""
import pytest

from e2e.flat import BUILD, TOP, Region, needs_soft
from windows.under_wine import client_of, need_built, wine

pytestmark = needs_soft("Windows programs are tried with the software GPU")
PROGRAMS = BUILD / "windows/programs"


@pytest.fixture(scope="module")
def region():
    need_built(BUILD / "windows/nvcuda.dll")
    region = Region()
    region.serve()
    yield region
    region.close()


@pytest.mark.parametrize("name", sorted(file.stem for file in (TOP / "tests/windows/programs").glob("*.c")))
def test_a_program_prints_what_it_prints_on_linux(region, name):
    theirs = wine(PROGRAMS / f"{name}.exe", env=client_of(region))
    ours = region.client(BUILD / "windows/native/programs" / name)
    assert ours.status == 0, ours
    assert theirs.rstrip().endswith("passed")
    assert theirs == ours.out


def test_a_program_of_the_runtime_api_prints_what_it_prints_on_linux(region):
    need_built(BUILD / "windows/cudart64_13.dll", PROGRAMS / "runtime_api.exe")
    theirs = wine(PROGRAMS / "runtime_api.exe", env=client_of(region))
    ours = region.client(BUILD / "windows/native/programs/runtime_api")
    assert ours.status == 0, ours
    assert theirs == ours.out and theirs.endswith("passed\n")
