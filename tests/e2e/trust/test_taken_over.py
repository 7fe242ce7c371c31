# SPDX-License-Identifier: Apache-2.0
"""A worker that an attacker has taken over (taken_over.cc, from inside the driver) does what it can to its bridge. It ends for that, with a
line in the log; the bridge goes on serving others."""
import errno

import pytest

from e2e.flat import BUILD, needs_soft
from e2e.taken import Installation, TakenOver

pytestmark = needs_soft("the driver is the test's own")


@pytest.fixture(scope="module")
def installation(shared):
    return Installation(shared, "tests/e2e/trust/taken_over.cc", attempts=6)


@pytest.fixture(params=["soft", "cuda"])
def kind(request):
    return request.param


@pytest.fixture
def taken(region, installation):
    """Ends with its bridge, which must still be well then."""
    one = TakenOver(region, installation)
    yield one
    region.stop()


def innocent(taken):
    ran = taken.region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.said, f"an innocent client: {ran}"


def ends(taken, attempt, line):
    """Twice, each time the worker ends for it."""
    for count in 1, 2:
        client = taken.attempt_and_stay(attempt)
        taken.region.wait_for_log(line, count)
        innocent(taken)
        client.end_input()
        client.wait()


def answer(taken, attempt):
    ran = taken.attempt(attempt)
    assert ran.status == 0, ran
    return int(ran.out)


def size_of_log(taken):
    return taken.region.bridge.log_file.stat().st_size


def test_the_log_is_the_bridges(taken, kind):
    taken.serve(kind)
    before = taken.region.bridge.log_file.read_bytes()
    assert answer(taken, "cut_log") in (errno.EBADF, errno.EINVAL, errno.ESPIPE)
    assert answer(taken, "forge_log") == 0
    taken.region.wait_for_log(r"error barcuda-bridge region: channel \d*: worker \d*: all is lost$")
    taken.region.wait_for_log(r"barcuda-bridge region: channel \d*: worker \d*: forged barcuda-bridge: all is well.x1b.2J.x0dforged$")
    taken.region.wait_for_log(r"info barcuda-bridge region: channel \d*: worker \d*: forged x*\.\.\.$")
    assert answer(taken, "flood_log") == 0
    taken.region.wait_for_log(r"channel \d*: worker \d*: \d* lines were left out \(log-text\)$")
    innocent(taken)
    assert size_of_log(taken) < 300000, "a megabyte of a worker's is in the log"
    assert "\nforged" not in taken.log, "a line that looks like the bridge's"
    assert taken.region.bridge.log_file.read_bytes().startswith(before), "the log has lost its beginning"


@pytest.mark.parametrize("attempt, line", [("second_mapper", "the worker reports a second mapper"),
                                           ("own_listener", "the worker reports a second mapper"),
                                           ("end_mapper", "the worker has lost the thread that maps its client's memory")],
                         ids=lambda value: value if "_" in value else "")
def test_only_the_first_mapper_is_believed(taken, kind, attempt, line):
    taken.serve(kind)
    if taken.lacks("extents"):
        pytest.skip("this kernel has no Landlock, so there is no mapper")
    ends(taken, attempt, line)


def test_without_the_measure_no_mapper_is_believed(taken, kind):
    taken.serve(kind)
    if taken.lacks("extents"):
        pytest.skip("this kernel has no Landlock, so there is no mapper")
    taken.serve(kind, "--no-cage=extents")
    ends(taken, "second_mapper", "the worker reports a mapper, but its cage has none")
