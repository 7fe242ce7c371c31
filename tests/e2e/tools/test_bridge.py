# SPDX-License-Identifier: Apache-2.0
"""`barcuda bridge` starts, lists and stops bridges by their names, where systemd does not do that (test_service.py has the units). In a
/dev/shm of the tests' own."""
import os
import re

import pytest

from e2e.flat import BARCUDA, BUILD, IS_ROOT, run, succeed, written

pytestmark = pytest.mark.usefixtures("own_shm")
NAME = f"by-hand-{os.getpid()}"


@pytest.fixture
def bridge(scratch):
    if IS_ROOT and os.path.exists("/run/systemd/system") and run("systemctl", "cat", "barcuda-bridge@x").status == 0:
        pytest.skip("Barcuda's units are installed here, and systemd would run these bridges (test_service.py)")
    own = {"XDG_STATE_HOME": scratch}

    def ask(*words):
        return run(BARCUDA, "bridge", *words, env=own)
    yield ask
    ask("stop", NAME)
    if os.path.exists(f"/dev/shm/barcuda-{NAME}"):
        os.unlink(f"/dev/shm/barcuda-{NAME}")


def test_a_bridge_is_started_listed_used_and_stopped(bridge, scratch):
    ran = bridge("start", NAME, "--size", "256M", "--device", "soft")
    assert ran.status == 0 and ran.out == f"{NAME} serves /dev/shm/barcuda-{NAME}; its log: {scratch}/barcuda/{NAME}.log\n", ran
    assert re.search(rf"^{NAME} +\d+ +0 +256M +/dev/shm/barcuda-{NAME}$", bridge("list").out, re.M), bridge("list")
    assert "PASSED" in succeed(BUILD / "programs/vector_add", env={
        "BARCUDA_REGION": f"/dev/shm/barcuda-{NAME}", "LD_PRELOAD": BUILD / "lib/libbarcuda.so", "LD_LIBRARY_PATH": BUILD / "lib/barcuda"})
    assert "client admitted" in (scratch / f"barcuda/{NAME}.log").read_text()
    assert bridge("stop", NAME).status == 0
    assert NAME not in bridge("list").out
    ran = bridge("stop", NAME)
    assert ran.status == 1 and f"no bridge {NAME} runs" in ran.err, ran


def test_a_bridge_that_does_not_start_says_why(bridge):
    ran = bridge("start", NAME, "--size", "3G", "--device", "soft")
    assert ran.status == 1 and f"{NAME} did not start" in ran.err and "power of two" in ran.err, ran


def test_a_second_bridge_of_the_name_is_refused(bridge):
    assert bridge("start", NAME, "--size", "256M", "--device", "soft").status == 0
    ran = bridge("start", NAME, "--size", "256M", "--device", "soft")
    assert ran.status == 1 and "did not start" in ran.err, ran
    assert NAME in bridge("list").out


def test_a_name_that_is_a_path_is_refused(bridge):
    ran = bridge("start", "../x")
    assert ran.status == 2 and "is no name" in ran.err, ran


def test_the_log_goes_on_after_the_earlier_ones_and_a_failed_start_shows_its_own_lines(bridge, scratch):
    log = scratch / f"barcuda/{NAME}.log"
    assert bridge("start", NAME, "--size", "256M", "--device", "soft").status == 0
    assert bridge("stop", NAME).status == 0
    before = log.read_text()
    ran = bridge("start", NAME, "--size", "3G", "--device", "soft")
    after = log.read_text()
    assert before and after.startswith(before) and len(after) > len(before), after
    assert ran.status == 1 and not any(line in ran.err for line in before.splitlines()), f"{ran}{before}"


def test_bridges_of_one_name_are_told_apart_by_their_pids(bridge, regions):
    assert bridge("start", NAME, "--size", "256M", "--device", "soft").status == 0
    other = regions()
    other.serve("--name", NAME)
    names = re.findall(rf"^({NAME}\S*)", bridge("list").out, re.M)
    assert len(names) == 2 and all(re.fullmatch(rf"{NAME}/\d+", name) for name in names), names
    ran = bridge("stop", NAME)
    assert ran.status == 1 and all(name in ran.err for name in names), ran
    for name in names:
        assert bridge("stop", name).status == 0
    assert NAME not in bridge("list").out


SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$LOG"
case $1 in
    cat) [ "$2" = "barcuda-bridge@$UNIT" ] ;;
esac
"""


@pytest.mark.skipif(not IS_ROOT or run("unshare", "--mount", "true").status != 0, reason="needs root, and unshare --mount: a /run of its own")
def test_a_bridge_is_a_unit_where_systemd_knows_one_in_whichever_folder(scratch):
    """systemd is a script here, which knows the unit of one name."""
    log = scratch / "log"
    written(scratch / "systemctl", SYSTEMCTL).chmod(0o755)

    def bridge(*words):
        log.write_text("")
        ran = run("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"', "sh", BARCUDA, "bridge",
                  *words, env={"PATH": f"{scratch}:{os.environ['PATH']}", "LOG": log, "UNIT": "vm1", "XDG_STATE_HOME": scratch})
        return ran, log.read_text().splitlines()

    ran, asked = bridge("start", "vm1")
    assert ran.status == 0 and asked == ["cat barcuda-bridge@vm1", "start barcuda-bridge@vm1"], f"{ran}{asked}"
    ran, asked = bridge("stop", "vm1")
    assert ran.status == 0 and asked[-1] == "stop barcuda-bridge@vm1", f"{ran}{asked}"
    ran, asked = bridge("start", "vm1", "--size", "1G")
    assert ran.status == 1 and "/etc/barcuda/vm1.conf" in ran.err, ran
    ran, asked = bridge("start", "vm2", "--size", "3G", "--device", "soft")
    assert ran.status == 1 and "vm2 did not start" in ran.err and asked == ["cat barcuda-bridge@vm2"], f"{ran}{asked}"
