# SPDX-License-Identifier: Apache-2.0
"""A measure of the cage that this machine does not have is found out while the first worker starts, which has taken it for granted: it ends, and
another one starts without that measure and serves. Here no process may write /proc/self/oom_score_adj (of the host's /proc: so workers get no
root of their own)."""
import re

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, run

OWN_MOUNTS = "a /proc that is read alone", "mount --bind /proc /proc && mount -o remount,bind,ro /proc"
pytestmark = pytest.mark.usefixtures("own_mounts")
NO_MOUNTS = "--no-cage", "mounts"


def test_a_worker_starts_without_the_measure_and_serves(region):
    region.serve("--no-vm", "--warm", 1, *NO_MOUNTS, device="soft")
    assert re.search("the workers' cage lacks .*'oom'", region.log), region.log
    assert "the first worker is started again" in region.log, f"it started after the cage had been tried: {region.log}"
    ran = region.client(BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, ran
    assert "the cage's measure" not in region.log, "the first worker was waited for"


def test_barcuda_run_runs_without_the_measure():
    ran = run(BARCUDA, "run", "--device", "soft", *NO_MOUNTS, "--", BUILD / "programs/vector_add")
    assert "PASSED" in ran.out, ran


def test_a_measure_that_must_be_there_is_an_error_and_no_region_is_left(region):
    ran = run(BRIDGE, "--region", region.path, "--device", "soft", "--no-vm", *NO_MOUNTS, "--cage", "oom")
    assert ran.status != 0 and "--cage oom: not available here" in ran.err, ran
    assert not region.path.exists(), "a region was left"
