# SPDX-License-Identifier: Apache-2.0
"""What a process shows to others (cudaIpc*) is for its region alone and no longer than it lives; a handle of another process's own making opens
nothing, and a process that waits for an event of a process that has died does not wait forever."""
import re

import pytest

from e2e.flat import BUILD, RUN, needs_soft, run

SHOWS = BUILD / "e2e/shows"
REFUSED = "memory refused event refused\n"


@pytest.fixture
def owner(region):
    """A process that shows memory and an event."""
    region.serve()
    return region.background("owner", SHOWS, "own")


@pytest.fixture
def handles(owner):
    return owner.wait_for("^handles (.*)$")[1].split()


def opened(region, handles):
    ran = region.client(SHOWS, "open", *handles)
    return ran.out or ran


def test_processes_of_the_region_open_what_they_are_shown(region, handles):
    assert opened(region, handles) == "memory 42 event pending\n"


def test_a_handle_of_its_own_making_opens_nothing(region, handles):
    assert opened(region, [re.sub("[0-9a-f]", "7", handle) for handle in handles]) == REFUSED


def test_a_handle_of_another_kind_opens_nothing(region, handles):
    assert opened(region, reversed(handles)) == REFUSED


def test_a_process_of_another_region_opens_nothing(handles):
    assert run(*RUN, SHOWS, "open", *handles).out == REFUSED


@needs_soft("what other drivers do then is theirs")
def test_what_is_open_stays_when_its_owner_is_killed_and_the_rest_cannot_be_opened_any_more(region, owner, handles):
    waiter = region.start("waiter", SHOWS, "wait", *handles)
    owner.kill()
    assert waiter.wait() == 0 and "memory 42" in waiter.out, f"what was open is lost: {waiter}"
    assert opened(region, handles) == REFUSED
