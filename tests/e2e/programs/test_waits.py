# SPDX-License-Identifier: Apache-2.0
"""A wait that the GPU will not end ends all the same, and says why: of an event whose record was refused, in a context that is gone, and, where
nothing is left to wait for, of a session that is over."""
import json

import pytest

from e2e.flat import BUILD, RUN, run

WAITS = BUILD / "e2e/waits"


@pytest.mark.parametrize("what, said", [("event", "recorded: 1\nreached: 0\n"), ("context", "refused: 1\n")])
def test_a_wait_that_the_gpu_will_not_end_ends(what, said):
    ran = run(*RUN, WAITS, what)
    assert ran.said == said, ran


def test_a_wait_for_the_device_asks_for_the_streams_that_may_be_at_work_and_not_for_all(scratch):
    ran = run(*RUN, WAITS, "streams", env={"BARCUDA_TRACE": scratch / "trace"})
    assert ran.said == "waited: 100\n", ran
    events = json.loads((scratch / "trace").read_text())
    guest, = (e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"].startswith("guest: waits"))
    fences = sum(e["name"] == "write_fence" and e["pid"] == guest for e in events)
    assert 100 <= fences < 200, f"100 waits for the device wrote {fences} fences"


def test_waits_of_a_session_that_is_over_end(region):
    region.serve()
    idle = region.start("idle", WAITS, "idle")
    worker, = region.bridge.workers()
    run("kill", "-9", worker)
    idle.wait()
    assert idle.out == "running\nstream: 1\nevent: 1\nevent again: 1\n", idle
