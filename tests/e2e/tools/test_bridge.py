# SPDX-License-Identifier: Apache-2.0
"""`barcuda bridge` starts, lists and stops bridges by their names, where systemd does not do that (test_service.py has the units). In a
/dev/shm of the tests' own."""
import os
import re

import pytest

from e2e.flat import BARCUDA, BUILD, run, succeed

pytestmark = pytest.mark.usefixtures("own_shm")
NAME = f"by-hand-{os.getpid()}"


@pytest.fixture
def bridge(scratch):
    if os.path.exists("/run/systemd/system") and os.geteuid() == 0:
        pytest.skip("systemd runs here, whose units they would be")
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
    assert ran.status == 1 and "no name of a bridge" in ran.err, ran
