# SPDX-License-Identifier: Apache-2.0
"""A guest's service has its door to itself: a second one is refused and says why; when the first has ended, in whatever way, the next one may
begin. (What the service does, in a guest: tests/vm/service_test.cc.)"""
import glob
import signal

import pytest

from e2e.flat import BARCUDA, IS_ROOT, Program, run

pytestmark = [pytest.mark.skipif(not IS_ROOT, reason="the service is root's"),
              pytest.mark.skipif(bool(glob.glob("/dev/pmem*")), reason="this machine has a device that the service might take")]


def test_a_second_service_is_refused_until_the_first_has_ended(scratch):
    door = scratch / "door/guest.sock"
    serve = [BARCUDA, "guest", "serve", "--socket", door]
    for end in signal.SIGTERM, signal.SIGKILL, signal.SIGTERM:
        first = Program(scratch, end.name, serve)
        try:
            first.wait_for("waiting for the host")  # it has no device here, but the door
            ran = run(*serve)
            assert ran.status == 1 and f"another service has {door}" in ran.said, ran
            assert first.runs(), first
        finally:
            first.kill(end)
