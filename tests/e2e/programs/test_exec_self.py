# SPDX-License-Identifier: Apache-2.0
"""A process that replaces its program (exec) leaves nothing of the old one behind: no channel, no worker, no extent; more often than there are
channels, and also where the new program never uses CUDA."""
import subprocess

import pytest

from e2e.flat import BUILD, until

EXEC_SELF = BUILD / "e2e/exec_self"


@pytest.fixture
def served(region):
    region.serve("--no-vm", size="512M")
    return region


def all_reclaimed(region, clients):
    until(lambda: region.log.count("reclaimed") == clients, lambda: f"{clients} clients are reclaimed: {region.log}")


def test_a_process_replaces_its_program_more_often_than_there_are_channels(served):
    ran = served.client(EXEC_SELF, "80", patience=300)
    assert ran.status == 0 and "PASSED" in ran.said, ran
    all_reclaimed(served, 81)


def test_a_program_that_never_ends_and_uses_no_cuda_keeps_nothing_of_the_program_before_it(served):
    process = served.background("cat", EXEC_SELF, "1", "cat", stdin=subprocess.PIPE)
    all_reclaimed(served, 2)
    assert process.out + process.log == "PASSED\n" and process.runs(), process
