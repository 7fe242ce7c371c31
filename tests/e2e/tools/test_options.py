# SPDX-License-Identifier: Apache-2.0
"""What the bridge is told wrongly is refused with the reason, and what was made for it is gone; the users that may connect to its doorbell are
those that may open its region; its workers' memory is not for files, and they go before it does."""
import os
import re
import stat
from pathlib import Path

import pytest

from e2e.flat import BRIDGE, BUILD, DEVICE, IS_ROOT, children, run, until

BEGAN = 0


@pytest.mark.parametrize("what, options", [
    ("nonsense", ["--log-level", "nonsense"]), ("cannot be negative", ["--size", "-5"]), ("cannot be negative", ["--base", "-1"]),
    ("there is no such user", ["--worker-user", f"nobody-{os.getpid()}"]), ("256.0.0.1", ["--metrics", "256.0.0.1:1"]),
    ("there is no such group", ["--group", f"nobody-{os.getpid()}"]),
    *(("a mode is 0600, 0640 or 0660", [f"--mode={mode}"]) for mode in ("0666", "0644", "0440", "0606", "04660", "abc", "-1"))],
    ids=lambda value: "=".join(value).split("-" + str(os.getpid()))[0] if isinstance(value, list) else "")
def test_a_wrong_option_is_refused_and_leaves_no_region(region, what, options):
    ran = run(BRIDGE, "--region", region.path, "--device", DEVICE, *options)
    assert ran.status != BEGAN and what in ran.said, ran
    assert not region.path.exists(), "a region was made"


def test_a_wrong_level_of_the_environment_is_refused(region):
    ran = run(BRIDGE, "--region", region.path, "--device", DEVICE, env={"BARCUDA_LOG": "nonsense"})
    assert ran.status != BEGAN and "nonsense" in ran.said, ran
    assert not region.path.exists(), "a region was made"


@pytest.fixture
def umask():
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def test_region_and_doorbell_are_their_groups_whatever_the_umask_and_a_region_that_is_there_too(region, umask):
    group = 65534 if IS_ROOT else os.getgid()
    made = region.path, region.folder / "doorbell"
    umask(0o077)
    region.serve("--doorbell", made[1], "--group", group)
    assert [(path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) for path in made] == [(group, 0o660)] * 2
    region.serve("--doorbell", made[1], "--mode", "0600")
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o600] * 2


def test_a_doorbell_is_not_for_all_users_where_the_umask_forbids_nothing(region, umask):
    umask(0)
    region.serve("--doorbell", region.folder / "doorbell")
    assert stat.S_IMODE((region.folder / "doorbell").stat().st_mode) == 0o660


def test_workers_dump_no_memory_and_are_killed_before_their_bridge(region):
    bridge = region.serve()
    region.start("client", BUILD / "e2e/endless")
    workers = children(bridge.pid, "--worker")
    assert workers
    for worker in workers:
        # One that waits for the next client may have just begun.
        until(lambda: re.search("^Max core file size +1 +1 ", Path(f"/proc/{worker}/limits").read_text(), re.M), "it dumps no memory")
        until(lambda: Path(f"/proc/{worker}/oom_score_adj").read_text().strip() == "500", "it is killed first")
