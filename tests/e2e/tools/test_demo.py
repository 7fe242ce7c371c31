# SPDX-License-Identifier: Apache-2.0
"""`barcuda demo` is a CUDA program that needs no toolkit: with a bridge of its own, in a guest (a region that is named), and under the library."""
import re

import pytest

from e2e.flat import BARCUDA, DEVICE, run, succeed


def passed(said):
    lines = said.splitlines()
    assert re.fullmatch(r"GPU 0: .+, [0-9.]+ GiB, compute capability [0-9.]+, CUDA [0-9.]+", lines[0]), said
    assert [line.split(":")[0] for line in lines[-3:]] == ["copy", "add", "PASSED"], said


@pytest.mark.parametrize("command", [["demo", "--device", DEVICE], ["run", "--device", DEVICE, "--", BARCUDA, "demo"]], ids=["alone", "under run"])
def test_without_a_vm_it_has_a_bridge_of_its_own(command):
    passed(succeed(BARCUDA, *command, env={"BARCUDA_REGION": None}))


def test_in_a_guest_it_is_a_client_of_the_vms_bridge(region):
    region.serve()
    passed(succeed(BARCUDA, "demo", env=region.named))
    region.wait_for_log("admitted")


def test_where_no_bridge_serves_it_says_so(region):
    region.serve()
    region.stop()
    ran = run(BARCUDA, "demo", env=region.named)
    assert ran.status == 1 and "barcuda demo: cuInit: CUDA_ERROR_NO_DEVICE" in ran.err and "no bridge" in ran.err, ran
