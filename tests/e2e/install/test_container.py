# SPDX-License-Identifier: Apache-2.0
"""`barcuda cdi`: podman gives containers a bridge's GPUs by a device's name alone. The container's root is empty except for this system's
programs and libraries. In an /etc, a /dev/shm and a folder of cgroups of the tests' own."""
import os
import re
import shutil
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, BUILD, Program, Region, need, run, succeed, written

OWN_MOUNTS = "an /etc and cgroups", """
mount -t tmpfs -o mode=1777 tmpfs /dev/shm && cp -a /etc /dev/shm/etc && mount --bind /dev/shm/etc /etc &&
    { [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup; }"""
pytestmark = pytest.mark.usefixtures("own_mounts")
CRUN = "/usr/bin/crun"
DEVICE_NAME = "barcuda.dev/gpu=vm1"
# Podman raises limits for root's containers, which a root without CAP_SYS_RESOURCE may not.
WITHOUT_LIMITS = f"""#!/usr/bin/python3
import json, os, sys
if "--bundle" in sys.argv:
    config = sys.argv[sys.argv.index("--bundle") + 1] + "/config.json"
    container = json.load(open(config))
    container["process"].pop("rlimits", None)
    json.dump(container, open(config, "w"))
os.execv("{CRUN}", ["crun", *sys.argv[1:]])
"""
PYTHONS = """
import ctypes
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
"""


class Podman:
    def __init__(self, region):
        self.region, folder = region, region.folder
        for name in "usr", "lib", "lib64", "bin", "proc", "sys", "dev", "tmp", "run", "etc":
            (folder / "root" / name).mkdir(parents=True)
        written(folder / "crun", WITHOUT_LIMITS).chmod(0o755)
        self.command = ["podman", "--runtime", folder / "crun", "--cgroup-manager", "cgroupfs", "--root", folder / "podman", "--runroot", folder / "run",
                        "--storage-driver", "vfs", "run", "--rm", "--network", "none", "--no-hosts", "--cgroups", "disabled"]
        self.root = [word for name in ("usr", "lib", "lib64", "bin") for word in ("-v", f"/{name}:/{name}:ro")]
        self.root += ["-v", f"{BUILD}/programs:/programs:ro", "--rootfs", folder / "root"]

    def contained(self, *program, device=None):
        return [*self.command, *(["--device", device] if device else []), *self.root, *program]

    def run(self, *program, device=None):
        return run(*self.contained(*program, device=device))


@pytest.fixture(scope="module")
def podman(own_mounts):
    """Podman, and a bridge whose device it knows."""
    need("podman")
    if not os.access(CRUN, os.X_OK):
        pytest.skip("crun is not installed")
    region = Region()
    try:
        region.serve("--no-vm")
        podman = Podman(region)
        Path("/etc/cdi").mkdir(exist_ok=True)
        Path("/etc/cdi/barcuda.json").write_text(succeed(BARCUDA, "cdi", "vm1", "--region", region.path))
        ran = podman.run("true")
        if ran.status:
            pytest.skip(f"podman runs no container here: {ran.err.splitlines()[-1:]}")
        yield podman
    finally:
        region.close()


def test_a_container_without_the_device_has_no_gpu(podman):
    ran = podman.run("/programs/vector_add")
    assert ran.status != 0, ran


def test_a_container_with_the_device_has_the_bridges(podman):
    ran = podman.run("/programs/vector_add", device=DEVICE_NAME)
    assert ran.status == 0 and re.search("^PASSED", ran.out, re.M), ran
    podman.region.wait_for_log("channel 0: client admitted")


def image_of(folder, *programs):
    """A root of these programs and the libraries that they need."""
    folder.mkdir()
    for program in programs:
        libraries = re.findall(r"(/\S+) \(0x", succeed("ldd", program))
        succeed("cp", "-L", "--parents", *libraries, folder)
        shutil.copy(program, folder)
    return folder


def test_a_container_gets_it_by_the_name_of_nvidias_and_has_nvidia_smi(podman, scratch):
    Path("/etc/cdi/nvidia.json").write_text(succeed(BARCUDA, "cdi", "vm1", "--region", podman.region.path, "--as", "nvidia.com/gpu"))
    root = image_of(scratch / "image", BUILD / "programs/vector_add", BARCUDA)
    for command, said in [["/vector_add"], "PASSED"], [["nvidia-smi", "-L"], "GPU 0: "]:
        ran = run(*podman.command, "--device", "nvidia.com/gpu=all", "--rootfs", root, *command)
        assert ran.status == 0 and re.search(f"^{said}", ran.out, re.M), ran


@pytest.mark.parametrize("kind", ["nvidia.com", "nvidia.com/", "/gpu", "nvidia.com/gpu=all", "nvidia.com/g pu", "../gpu"])
def test_what_is_no_kind_of_device_is_refused(kind):
    ran = run(BARCUDA, "cdi", "vm1", "--as", kind)
    assert ran.status == 2 and f"{kind} is no kind of device" in ran.err, ran


def test_three_containers_share_it(podman):
    programs = [Program(podman.region.folder, f"container{i}", podman.contained("/programs/host_memory", device=DEVICE_NAME)) for i in range(3)]
    podman.region.programs += programs
    for program in programs:
        program.wait()
        assert re.search("^PASSED", program.out, re.M), program


def test_python_opens_the_driver_in_a_container(podman):
    ran = podman.run("/usr/bin/python3", "-c", PYTHONS, device=DEVICE_NAME)
    assert ran.status == 0, ran


def test_without_a_guests_device_barcuda_cdi_says_what_to_do(podman):
    ran = run(BARCUDA, "cdi")
    assert ran.status != 0 and "barcuda cdi vm1" in ran.said, ran
