# SPDX-License-Identifier: Apache-2.0
"""A region that is replaced by a copy, taken away, or not to be read, and processes that may have little memory: each client ends with a line
that says what is wrong, and the bridge lives and serves those who come to its own file. (Full, and cut short: test_full_memory.py; none at all:
test_foreign_region.py.)"""
import resource

import pytest

from e2e.flat import BRIDGE, BUILD, DEVICE, may_be_other_user, other_user, run, succeed

VECTOR_ADD = BUILD / "programs/vector_add"
CANNOT_START = 126, 127  # of programs, as shells and setpriv have it


def ended(region, ran):
    """The client said why it has no GPU, and nothing crashed or hung."""
    assert 0 < ran.status < 124 and "barcuda: " in ran.said, ran
    assert region.bridge.runs(), region.bridge


def is_served(region):
    ran = region.client(VECTOR_ADD)
    assert "PASSED" in ran.said, ran


def test_a_region_that_is_replaced_or_taken_away_is_told_and_served_when_it_is_back(region):
    region.serve()
    own, copy = region.folder / "own", region.folder / "copy"
    succeed("cp", "--sparse=always", region.path, copy)
    region.path.rename(own)
    copy.rename(region.path)
    ended(region, region.client(VECTOR_ADD))
    region.wait_for_log("the region's file was replaced by another one")
    region.path.unlink()
    ended(region, region.client(VECTOR_ADD))
    region.wait_for_log("the region's file was removed")
    own.rename(region.path)
    is_served(region)
    region.wait_for_log("the region's file is there again")


def test_a_user_who_may_not_read_the_region_is_told(region):
    if not may_be_other_user():
        pytest.skip("needs root and setpriv")
    region.serve()
    region.folder.chmod(0o711)
    region.path.chmod(0o600)
    ran = run(*other_user("env", *(f"{name}={value}" for name, value in region.guest.items()), VECTOR_ADD))
    if ran.status in CANNOT_START:
        pytest.skip("another user cannot start programs here")
    ended(region, ran)
    assert "permission denied" in ran.said.lower(), ran


def addresses(mib):
    """For a child: so many MiB of addresses."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20))


@pytest.mark.parametrize("mib", [2000, 1100, 600, 300])
def test_a_client_with_little_memory_is_served_or_told_and_others_do_not_notice(region, mib):
    region.serve()
    ran = region.client(VECTOR_ADD, preexec_fn=addresses(mib))
    assert "PASSED" in ran.said if ran.status == 0 else 0 < ran.status < 124 and ran.said, ran
    assert region.bridge.runs(), region.bridge
    is_served(region)


def test_a_bridge_with_little_memory_says_so(region):
    region.serve()
    region.stop()
    ran = run(BRIDGE, "--region", region.path, "--device", DEVICE, preexec_fn=addresses(293))
    assert ran.status == 1 and ran.said, ran
