# SPDX-License-Identifier: Apache-2.0
"""A GPU that is there to see, with a driver that does not start: the bridge finds out when its first worker starts it. Then programs run on the
software GPU, or, where a GPU was asked for, the bridge says why there is none, and nothing stays."""
import os
import signal

import pytest

from e2e.flat import BARCUDA, BRIDGE, BUILD, Program, children, need, needs_soft, run, succeed, until

OWN_MOUNTS = "devices", """
mount -t tmpfs tmpfs /mnt && (cd /mnt && mkdir pts shm && touch null zero full random urandom tty nvidiactl &&
    for d in null zero full random urandom tty pts shm; do mount --bind /dev/$d $d || exit; done) && mount --rbind /mnt /dev"""
pytestmark = pytest.mark.usefixtures("own_mounts")
VECTOR_ADD = BUILD / "programs/vector_add"
FAILS = """#include <stdlib.h>
int cuInit(unsigned flags) { (void)flags; %s }
int cuDeviceGetCount(int* count) { return *count = 0; }
int cuStreamWriteValue64_v2(void) { return 1; }
int cuMemHostRegister_v2(void) { return 1; }
int cuFuncGetParamInfo(void) { return 1; }
"""
NEVER_STARTS = """int cuInit(unsigned flags) { for (;;) (void)flags; }
int cuStreamWriteValue64_v2, cuMemHostRegister_v2, cuFuncGetParamInfo;
"""


class Host:
    """A host, and the folder where programs find its driver."""

    def __init__(self, region):
        self.region, self.drivers, self.none = region, region.folder / "driver", region.folder / "none"
        self.drivers.mkdir()
        self.environment = {"LD_LIBRARY_PATH": self.drivers}

    def has_driver(self, source):
        compiler = os.environ.get("CC", "gcc")
        need(compiler)
        succeed(compiler, "-x", "c", "-shared", "-fPIC", "-o", self.drivers / "libcuda.so.1", "-", input=source)

    def refuses(self, message, region=None):
        """A bridge for the GPU ends at once, says why, and leaves nothing."""
        ran = run(BRIDGE, "--region", region or self.none, "--device", "cuda", env=self.environment)
        assert ran.status not in (0, 124) and message in ran.said, ran
        assert not self.none.exists(), "a region was left"
        assert not run("pgrep", "-f", "--", f"--region {self.none}").out, "a process was left"

    def runs_programs(self):
        ran = run(BARCUDA, "run", "--", VECTOR_ADD, env=self.environment)
        assert "PASSED" in ran.out, ran


@pytest.fixture
def host(region):
    return Host(region)


@needs_soft("the system has a driver")
def test_without_a_driver_programs_run_on_the_software_gpu(host):
    """There is no libcuda.so.1, or one without its devices."""
    host.refuses("no usable GPU: ")
    host.region.serve("--no-vm", device="auto")
    assert "software GPU: 0 " in host.region.log, f"it serves something else: {host.region.log}"
    ran = host.region.client(VECTOR_ADD)
    assert "PASSED" in ran.out, ran
    host.runs_programs()


@pytest.mark.parametrize("how, why", [("return 100;", "cuInit: "), ("abort();", "the driver crashed while it was tried"),
                                      ("return 0;", "it sees no GPU")], ids=["it fails", "it crashes", "it sees no GPU"])
def test_with_a_driver_that_has_nothing_to_serve_programs_run_on_the_software_gpu(host, how, why):
    host.has_driver(FAILS % how)
    host.refuses(f"no usable GPU: {why}")
    host.runs_programs()


def test_a_region_is_not_changed_for_a_driver_that_does_not_start(host):
    host.has_driver(FAILS % "return 0;")
    host.region.serve("--no-vm", device="soft")
    host.region.stop()
    with open(host.region.path, "rb") as file:
        before = file.read(4096)
    host.refuses("no usable GPU: ", region=host.region.path)
    with open(host.region.path, "rb") as file:
        assert file.read(4096) == before, "the region was changed"


@pytest.mark.parametrize("cage", ["--cage=privileges", "--no-cage=all"])
def test_a_bridge_that_is_told_to_end_does_not_wait_for_a_driver_that_never_ends_its_start(host, cage):
    """In its cage the worker does not find that driver: then a child tries it."""
    host.has_driver(NEVER_STARTS)
    bridge = Program(host.region.folder, "bridge", [BRIDGE, "--region", host.none, "--device", "cuda", "--no-vm", cage], env=host.environment)
    host.region.programs.append(bridge)
    until(lambda: children(bridge.pid) or not bridge.runs(), "it has a child")
    assert bridge.runs(), bridge
    assert bridge.kill(signal.SIGTERM) == 0, bridge
    assert not host.none.exists(), "a region was left"
