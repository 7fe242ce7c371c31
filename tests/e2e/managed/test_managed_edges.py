# SPDX-License-Identifier: Apache-2.0
"""Managed memory where the device has too little memory for it, where the process has too few mappings, where it stays in the region because the
user says so; after a reset, at a program's end, and when the GPU is lost."""
import os
import re
import signal

import pytest

from e2e.flat import BUILD, text_of

EDGES, WAITS = BUILD / "e2e/managed_edges", BUILD / "e2e/managed_waits"


@pytest.fixture
def small_device(region, drivers_own):
    """A region whose clients have 64 MiB of device memory."""
    region.serve("--client-device-memory", f"{64 + drivers_own}M")
    return region


def client(region, *command, says, **variables):
    ran = region.client(*command, env=variables)
    assert ran.status == 0 and says in ran.out, ran
    return ran


def test_where_a_full_device_has_no_room_memory_is_there_and_some_is_on_the_device(small_device):
    stats = small_device.folder / "stats"
    client(small_device, EDGES, "full", says="fits", BARCUDA_STATS=stats)
    assert "managed, to device" in text_of(stats), f"nothing was on the device: {text_of(stats)}"


def test_all_stays_in_the_region_if_the_user_says_so(small_device):
    stats = small_device.folder / "stats"
    client(small_device, EDGES, "full", says="fits", BARCUDA_STATS=stats, BARCUDA_MANAGED="host")
    assert text_of(stats) and "managed, to" not in text_of(stats), f"some was on the device: {text_of(stats)}"


def test_a_setting_that_there_is_not_is_refused(small_device):
    ran = small_device.client(EDGES, "full", env={"BARCUDA_MANAGED": "elsewhere"})
    assert ran.status == 78 and "BARCUDA_MANAGED=elsewhere" in ran.said, ran


def test_larger_and_larger_memory_is_on_the_device(small_device):
    ran = client(small_device, EDGES, "growing", says="grown", BARCUDA_LOG="debug")
    assert "stays in the region" not in ran.said, ran


def test_new_memory_in_a_block_that_the_cpu_has_is_zeros(small_device):
    client(small_device, EDGES, "beside", says="beside")


def test_memory_of_the_hosts_is_fetched_again_behind_what_went_to_the_device(region):
    region.serve()
    client(region, EDGES, "hosts", says="read")


def test_no_stream_waits_for_anothers_kernels_because_the_cpu_has_written(region):
    region.serve()
    client(region, EDGES, "streams", says="apart")


def test_memory_comes_with_a_wait_as_the_only_stream_at_work_has_left_it(region):
    region.serve()
    stats = region.folder / "stats"
    client(region, EDGES, "ahead", says="in turn", BARCUDA_STATS=stats)
    faults = int(re.search(r"managed, faults\s+(\d+)", text_of(stats))[1])
    assert faults < 100, f"of 290 touches these were faults, and so came with no wait: {text_of(stats)}"


def test_memory_is_usable_after_a_reset(small_device):
    client(small_device, EDGES, "reset", says="reset")


def test_memory_is_usable_at_the_end_of_a_program(small_device):
    client(small_device, EDGES, "end", says="late: 5")


def test_a_kernel_that_waits_for_the_cpu_runs_in_the_region(small_device):
    client(small_device, WAITS, says="", BARCUDA_MANAGED="host")


def test_a_kernel_that_waits_for_the_cpu_on_the_device_is_told_of_the_setting(small_device):
    waiting = small_device.background("waiting", WAITS)
    waiting.wait_for("BARCUDA_MANAGED=host")


def test_a_program_goes_on_with_its_memory_when_the_gpu_is_lost_and_is_told_once(small_device):
    lost = small_device.start("lost", EDGES, "lost")
    os.kill(small_device.bridge.workers()[-1], signal.SIGKILL)
    assert lost.wait() == 0 and "went on" in lost.out, lost
    assert len(re.findall("was on the GPU, which is lost", lost.log)) == 1, f"no reason was given, or twice: {lost}"


def test_a_process_with_few_mappings_has_scattered_memory(region):
    region.serve(size="2G")
    client(region, EDGES, "scattered", says="scattered")
