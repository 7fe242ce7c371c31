# SPDX-License-Identifier: Apache-2.0
"""What is not our region is refused, by the library and by the bridge, with a line that says what it is and what to do."""
import os

from e2e.flat import BRIDGE, BUILD, DEVICE, run


def refused(region, words):
    """The client says why, and CUDA says that there is no device."""
    ran = region.client(BUILD / "programs/vector_add")
    assert ran.status != 0 and words in ran.said, ran


def test_a_foreign_file_is_refused_by_the_library_and_by_the_bridge(region):
    region.path.write_bytes(os.urandom(128 << 20))
    refused(region, "not a Barcuda region")
    ran = run(BRIDGE, "--region", region.path, "--size", "128M", "--device", DEVICE)
    assert ran.status != 0 and "overwrite" in ran.err, f"no remedy: {ran}"


def test_a_region_that_is_not_there_is_refused(region):
    refused(region, "no such region")


def test_a_header_without_rows_is_refused(region):
    region.serve()
    region.stop()
    with open(region.path, "r+b") as file:
        file.seek(20)  # row_count
        file.write(bytes(2))
    refused(region, "its header claims 0 rows")
