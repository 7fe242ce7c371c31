# SPDX-License-Identifier: Apache-2.0
"""A bridge that is killed is followed by another one of the same keeper, which goes on with the same clients: programs compute what they
always do, what they hold is theirs and comes back when they end, and new programs are served. Hundreds of kills: tests/hostile/lives."""
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, PATIENCE, children, run, succeed, until

KILLS = 12
MODELS = {
    "copies": ("e2e/copy_model", "steps=3000"),
    "everything": ("e2e/api_model", "steps=1500", "threads=3"),
    "managed": ("e2e/managed_model", "steps=400"),
}


def kill_bridge(bridge, signal_number=signal.SIGKILL):
    """Kills the process that serves, and waits until another one does."""
    before = until(lambda: bridge.proper, "a bridge serves")
    served = bridge.log.count("this bridge goes on with")
    os.kill(before, signal_number)
    until(lambda: bridge.log.count("this bridge goes on with") > served, lambda: f"another bridge goes on: {bridge}")
    return before


def child_pids(pid):
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.parametrize("model", MODELS)
def test_a_program_computes_on_while_its_bridge_is_killed(region, model):
    bridge = region.serve("--warm", "0")
    program, *words = MODELS[model]
    client = region.background(model, BUILD / program, *words, f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    kills = 0
    while client.runs() and kills < KILLS:
        time.sleep(random.random() * 0.3)
        kill_bridge(bridge)
        kills += 1
    assert client.wait() == 0, f"after {kills} kills: {client}{bridge.log}"
    assert kills, "no bridge was killed while the program ran"
    until(lambda: "goes on" in bridge.log and not children(bridge.pid, "--worker"), "the worker has ended with its client")


def test_sixteen_clients_go_on_and_leave_nothing_behind(region):
    bridge = region.serve("--warm", "0")
    until(lambda: not children(bridge.pid, "--worker"), "no worker is there")
    keepers_files = open_files(bridge.pid)  # before there is a client: a worker's files may outlive the worker for a moment
    assert region.client(BUILD / "programs/vector_add").status == 0
    kill_bridge(bridge)
    clients = [region.background(f"client{i}", BUILD / "e2e/copy_model", "steps=400", f"seed={i}") for i in range(16)]
    kills = 0
    while any(client.runs() for client in clients) and kills < KILLS:
        time.sleep(random.random() * 0.3)
        kill_bridge(bridge)
        kills += 1
    for client in clients:
        assert client.wait() == 0, f"after {kills} kills: {client}{bridge.log}"
    until(lambda: not children(bridge.pid, "--worker"), "all workers have ended")
    until(lambda: open_files(bridge.pid) <= keepers_files, lambda: f"the keeper has {open_files(bridge.pid)} files, and had {keepers_files}")
    assert region.client(BUILD / "programs/vector_add").status == 0
    kill_bridge(bridge)
    assert region.client(BUILD / "programs/vector_add").status == 0
    bridge.stop()


def test_bridges_that_are_killed_while_they_start_are_given_up_only_when_none_of_them_came_to_serve(region):
    """Five in a row are too many. One that served in between ends the row."""
    bridge = region.serve("--warm", "0")
    client = region.start("client", BUILD / "e2e/endless")
    for _ in range(2):
        known, end = child_pids(bridge.pid), time.monotonic() + PATIENCE
        os.kill(until(lambda: bridge.proper, "a bridge serves"), signal.SIGKILL)
        for _ in range(4):
            while not (started := child_pids(bridge.pid) - known):  # soon: it serves within some ten milliseconds
                assert bridge.runs() and time.monotonic() < end, bridge
                time.sleep(0.001)
            os.kill(*started, signal.SIGKILL)
            known |= started
        until(lambda: run(BARCUDA, "limit", "--region", region.path).status == 0, lambda: f"a bridge serves: {bridge}")
    assert len(re.findall("another one goes on", bridge.log)) == 10, bridge.log
    assert client.runs(), f"{client}{bridge.log}"
    assert region.client(BUILD / "programs/vector_add").status == 0
    bridge.stop()


def test_a_limit_that_was_set_while_a_bridge_ran_holds_under_the_next(region):
    bridge = region.serve("--warm", "0")
    client = region.start("client", BUILD / "e2e/endless")
    region_named = ("--region", region.path, "--client", str(client.pid))
    succeed(BARCUDA, "limit", *region_named, "device-memory=3G")
    kill_bridge(bridge)
    shown = succeed(BARCUDA, "limit", *region_named)
    assert re.search(r"device-memory\b.*\b3", shown), shown


def test_a_bridge_that_stands_still_is_replaced(region):
    bridge = region.serve("--warm", "0")
    client = region.background("client", BUILD / "e2e/copy_model", "steps=2000", f"seed={random.randrange(1 << 30)}")
    bridge.wait_for("client admitted")
    kill_bridge(bridge, signal.SIGSTOP)
    assert "the bridge has not said for 10 s that it lives: it is ended" in bridge.log
    assert client.wait() == 0, f"{client}{bridge.log}"
    assert region.client(BUILD / "programs/vector_add").status == 0
    bridge.stop()


def test_a_keeper_that_stood_still_itself_ends_no_bridge(region):
    """A time in which it did not run counts as one look."""
    bridge = region.serve("--warm", "0")
    before = bridge.proper
    bridge.stand_still()
    time.sleep(11)
    bridge.go_on()
    assert region.client(BUILD / "programs/vector_add").status == 0
    time.sleep(1.5)  # the keeper looks again
    assert bridge.proper == before
    bridge.stop()


def test_a_keeper_that_is_killed_ends_all(region):
    bridge = region.serve("--warm", "0")
    victim = region.start("victim", BUILD / "e2e/endless")
    proper, workers = bridge.proper, bridge.workers()
    bridge.kill()
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in [proper, *workers]), "bridge and workers have ended")
    assert victim.wait() == 3, victim
