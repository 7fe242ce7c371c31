# SPDX-License-Identifier: Apache-2.0
"""A client that is killed gives back its channel, its worker and its memory; the next one works."""
import re

from e2e.flat import BUILD


def test_the_next_client_has_the_channel_of_one_that_was_killed(region):
    region.serve()
    region.start("victim", BUILD / "e2e/endless").kill()
    region.wait_for_log("channel 0: reclaimed, with [1-9]")
    assert not re.search("at most [0-9.]*T of device memory", region.log), f"what it asked for and did not get was counted: {region.log}"
    assert "PASSED" in region.client(BUILD / "programs/vector_add").out
    region.wait_for_log("channel 0: reclaimed", 2)
    assert "channel 1" not in region.log, "the channel was not used again"
