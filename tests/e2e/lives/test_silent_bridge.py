# SPDX-License-Identifier: Apache-2.0
"""A bridge that hangs is shown as silent, never as none; and sockets that another user has made hide no bridge."""
import json
import re
import sys

import pytest

from e2e.conftest import OWN_SHM
from e2e.flat import BARCUDA, Program, run

OWN_MOUNTS = "a /dev/shm", OWN_SHM  # for lists of all bridges
SOCKETS = """
import os, socket, time
os.setgid(65534); os.setuid(65534)
held = []
for i in range(1100):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(f"/dev/shm/barcuda-limits-0-0-{i}")             # none listens
    if i < 500: held.append(s)
    else: s.close()
print("running", flush=True)
time.sleep(600)
"""


@pytest.fixture
def bridge(own_mounts, region):
    return region.serve("--no-vm", "--name", "seen")


def is_seen(bridge):
    ran = run(BARCUDA, "ps")
    assert ran.status == 0 and re.search(f"^seen +{bridge.proper} ", ran.out, re.M), ran


def test_a_bridge_that_stands_still_is_shown_as_silent_until_it_goes_on(bridge):
    is_seen(bridge)
    proper = bridge.proper
    bridge.stand_still()
    ran = run(BARCUDA, "ps")
    assert ran.status == 1 and re.search(rf"^\? +{proper} +silent$", ran.out, re.M) and "No bridge" not in ran.said, ran
    ran = run(BARCUDA, "ps", "--json")
    shown = json.loads(ran.out)
    assert ran.status != 0 and [one["pid"] for one in shown["silent_bridges"]] == [proper] and not shown["bridges"], ran
    assert "No bridge answers; one is silent." in run(BARCUDA, "top", "--once", "--interval", "0.1").out.splitlines()
    bridge.go_on()
    is_seen(bridge)


def test_the_view_of_one_vm_leaves_out_a_bridge_that_hangs(bridge, regions):
    other = regions().serve("--no-vm", "--name", "other")
    bridge.stand_still()
    alone = run(BARCUDA, "ps", "other")
    assert alone.status == 0 and re.search(f"^other +{other.proper} ", alone.out, re.M) and "silent" not in alone.said, alone
    silent = run(BARCUDA, "ps", "seen")
    assert silent.status == 1 and re.search(rf"^\? +{bridge.proper} +silent$", silent.out, re.M), silent
    bridge.go_on()


def test_sockets_of_another_user_hide_no_bridge(bridge, region):
    others = Program(region.folder, "others", [sys.executable, "-c", SOCKETS])
    region.programs.append(others)
    others.wait_for("running")
    is_seen(bridge)
