# SPDX-License-Identifier: Apache-2.0
"""`barcuda doctor` in one situation after the other: it ends with 0 and "All is well." where programs can run, and else with 1, with as many
things missing as are missing, a line that names the cause, and one that names the cure. Regions, bridges and files are real; a guest's
device, its module and NVIDIA's driver are made of files. In a /dev/shm, a /sys and a /run of the tests' own."""
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from e2e.flat import BRIDGE, LIBRARIES, need, other_user, run, succeed, until

OWN_MOUNTS = "a /dev/shm, a /sys and a /run", """
mount -t tmpfs -o mode=1777 tmpfs /dev/shm && mount -t tmpfs tmpfs /run && for d in bus/pci/devices module class/block class/uio; do
    [ ! -d /sys/$d ] || mount -t tmpfs tmpfs /sys/$d || exit
done"""
pytestmark = pytest.mark.usefixtures("own_mounts")
LIBRARY = "libbarcuda.so", "barcuda", "barcuda-libraries"
PCI, MODULE = Path("/sys/bus/pci/devices/0000:00:05.0"), Path("/sys/module/uio_barcuda")
SOME = -1  # things missing: one or more


@pytest.fixture(scope="module")
def places(own_mounts, shared):
    """Installations, each in a folder of its own, with everything or without some part; and drivers."""
    need("cc", "setpriv")
    shared.chmod(0o711)

    def installed(name, *parts):
        (shared / name / "bin").mkdir(parents=True)
        (shared / name / "lib").mkdir()
        shutil.copy(BRIDGE.with_name("barcuda"), shared / name / "bin")
        for part in parts:
            if part == "barcuda-bridge":
                (shared / name / "bin" / part).symlink_to(BRIDGE)
            else:
                (shared / name / "lib" / part).symlink_to(LIBRARIES / part)
    installed("host", "barcuda-bridge", "barcuda-soft", *LIBRARY)
    installed("hardware", "barcuda-bridge", *LIBRARY)
    installed("guest", *LIBRARY)
    installed("half", "barcuda-bridge", "barcuda-soft", "barcuda")

    def driver(name, functions):
        (shared / name).mkdir()
        succeed("cc", "-shared", "-fPIC", "-x", "c", "-o", shared / name / "libcuda.so.1", "-", input=functions)
    (shared / "none").mkdir()
    (shared / "none/libcuda.so.1").write_text("none\n")  # what is no library ends the loader's search: as if there were none
    driver("old", "int cuDriverGetVersion(int* v) { *v = 12020; return 0; }")
    driver("broken", """int cuDriverGetVersion(int* v) { *v = 13000; return 0; } int cuInit(unsigned f) { return 999; }
        int cuGetErrorName(int r, const char** n) { *n = "CUDA_ERROR_UNKNOWN"; return 0; }
        void cuStreamWriteValue64_v2(void) {} void cuMemHostRegister_v2(void) {} void cuFuncGetParamInfo(void) {}""")
    return shared


class Doctor:
    def __init__(self, places, region):
        self.places, self.region = places, region
        region.folder.chmod(0o711)

    def serve(self, *options):
        return self.region.serve("--name", "doctor", *options)

    def run(self, where, *words, named=False, driver=None, user=None, **variables):
        command = [self.places / where / "bin/barcuda", *words]
        nothing = {"BARCUDA_REGION": None, "CUDA_VISIBLE_DEVICES": None, "LD_PRELOAD": None, "LD_LIBRARY_PATH": driver or self.places / "none"}
        return run(*(other_user(*command) if user else command), cwd=self.places,
                   env={**nothing, **(self.region.named if named else {}), **variables})

    def says(self, missing, cause, cure="", where="host", **how):
        """`missing` things are, the cause is said, and the cure behind it. `named`: the environment names the region."""
        ran = self.run(where, "doctor", **how)
        about = f"{ran.status}: {ran.said.split(chr(10) + 'The workers')[0]}"
        count = len(re.findall("^  missing", ran.said, re.M))
        if missing == 0:
            assert ran.status == 0 and "All is well." in ran.said.splitlines() and count == 0, about
        else:
            assert ran.status == 1 and "All is well" not in ran.said and "thing(s) missing" in ran.said, about
            assert count == missing or missing == SOME, f"not {missing} missing: {about}"
        lines = ran.said.splitlines()
        found = [i for i, line in enumerate(lines) if re.search(f"^  {cause}", line)]
        assert found, f"{cause!r} is not said: {about}"
        assert not cure or any(re.search(f"-> .*{cure}", line) for i in found for line in lines[i:i + 2]), f"{cure!r} is not said: {about}"


@pytest.fixture
def doctor(places, region):
    return Doctor(places, region)


# ---- the installation, and what a host's GPU is -----------------------------------------------------------------------------------------
def test_a_host_with_the_software_gpu(doctor):
    doctor.says(0, "note +bridges here use the software GPU")


def test_a_host_with_no_gpu_of_any_kind(doctor):
    doctor.says(1, "missing +a GPU of any kind", "install NVIDIA's driver .*barcuda-soft", where="hardware")


def test_a_driver_that_is_too_old(doctor):
    doctor.says(SOME, "missing +a recent CUDA driver", "CUDA 12.4 or newer", driver=doctor.places / "old")


def test_a_driver_that_does_not_start(doctor):
    doctor.says(1, "missing +a GPU that works: .*CUDA_ERROR_UNKNOWN", "nvidia-smi", driver=doctor.places / "broken")


def test_barcudas_own_driver_in_the_environment(doctor):
    doctor.says(0, "note +libcuda.so.1 here is Barcuda's own", driver=LIBRARIES / "barcuda")


def test_the_library_is_missing(doctor):
    doctor.says(1, "missing +guest library: ", "make install", where="half")


def test_no_hardware_virtualization(doctor):
    (doctor.region.folder / "cpuinfo").write_text("".join(line for line in open("/proc/cpuinfo", encoding="utf-8") if not line.startswith("flags")))
    succeed("mount", "--bind", doctor.region.folder / "cpuinfo", "/proc/cpuinfo")
    try:
        doctor.says(0, "note +no hardware virtualization")
    finally:
        succeed("umount", "/proc/cpuinfo")


@pytest.fixture
def little_room():
    """200 MiB are free in /dev/shm from the call of this on."""
    size, = (int(n) for n in succeed("df", "--output=size", "/dev/shm").split()[1:])

    def make_little():
        used, = (int(n) for n in succeed("df", "--output=used", "/dev/shm").split()[1:])
        succeed("mount", "-o", f"remount,size={used + (200 << 10)}k", "/dev/shm")
    yield make_little
    succeed("mount", "-o", f"remount,size={size}k", "/dev/shm")


def test_no_room_in_dev_shm(doctor, little_room):
    little_room()
    doctor.says(1, "missing +room in /dev/shm", "mount -o remount,size")


# ---- the region that the environment names, and its bridge ------------------------------------------------------------------------------
def test_a_region_that_is_not_there(doctor):
    doctor.says(1, "missing +a region", "there is no such region; start barcuda-bridge", named=True)


def test_a_region_that_a_bridge_serves(doctor):
    doctor.serve("--no-vm")
    doctor.says(0, "ok +a bridge serves it", named=True)


def test_a_bridge_and_no_region_named(doctor):
    bridge = doctor.serve("--no-vm")
    doctor.says(0, rf"ok +bridge doctor \(pid {bridge.proper}\) serves {doctor.region.path}")


def test_no_room_beside_a_bridges_region(doctor, little_room):
    doctor.serve("--no-vm")
    little_room()
    doctor.says(0, "note +/dev/shm has only", named=True)


def test_a_gpu_that_is_not_there(doctor):
    doctor.serve("--no-vm")
    doctor.says(0, "note +CUDA_VISIBLE_DEVICES=77: programs see no GPU", named=True, CUDA_VISIBLE_DEVICES="77")


def test_a_region_of_another_users(doctor):
    doctor.serve("--no-vm")
    os.chown(doctor.region.path, 65534, -1)
    doctor.says(1, "missing +a region", "belongs to user 65534, .*chown", named=True)


def test_a_region_that_everybody_may_write_to(doctor):
    doctor.serve("--no-vm")
    doctor.region.path.chmod(0o666)
    doctor.says(1, "missing +a region", "every user .*chmod o-w", named=True)


def test_a_region_that_is_not_this_users(doctor):
    doctor.serve("--no-vm")
    doctor.region.path.chmod(0o660)
    doctor.says(SOME, "missing +a region", "usermod -aG barcuda", named=True, user="another")


@pytest.mark.parametrize("version, cure", [(99, "layout version 99, .*upgrade Barcuda in this guest"),
                                           (1, "layout version 1, .*upgrade barcuda-bridge on the host")], ids=["newer", "older"])
def test_a_region_of_another_layout(doctor, version, cure):
    doctor.serve("--no-vm")
    with open(doctor.region.path, "r+b") as file:
        file.seek(8)
        file.write(struct.pack("<I", version))
    doctor.says(1, "missing +a region", cure, named=True)


def test_a_bridge_that_stands_still(doctor):
    bridge = doctor.serve("--no-vm")
    os.kill(bridge.proper, signal.SIGSTOP)
    doctor.says(1, f"missing +the bridge with pid {bridge.proper}: it does not answer", "kill -CONT")


def test_the_region_of_a_bridge_that_stands_still(doctor):
    os.kill(doctor.serve("--no-vm").proper, signal.SIGSTOP)
    doctor.says(2, "missing +a bridge: the one that served this region is silent", "start barcuda-bridge", named=True)


def test_a_regions_file_that_was_removed_and_is_back(doctor):
    bridge, away = doctor.serve("--no-vm"), doctor.region.folder / "away"
    doctor.region.path.rename(away)
    doctor.says(1, rf"missing +the region of bridge doctor \(pid {bridge.proper}\): {doctor.region.path} was removed or replaced", "restart the bridge")
    doctor.says(2, "missing +a region", "there is no such region", named=True)
    away.rename(doctor.region.path)
    doctor.says(0, "ok +a bridge serves it", named=True)


def test_a_regions_file_that_was_replaced(doctor):
    doctor.serve("--no-vm")
    doctor.region.path.rename(doctor.region.folder / "away")
    doctor.region.path.write_text("none\n")
    doctor.says(1, "missing +the region of bridge doctor .* was removed or replaced", "restart the bridge")


def test_a_bridge_that_has_ended(doctor):
    doctor.serve("--no-vm")
    doctor.region.stop()
    doctor.says(1, "missing +a bridge: none serves this region", "start barcuda-bridge", named=True)


def test_a_bridge_that_was_killed(doctor):
    bridge = doctor.serve("--no-vm")
    workers = subprocess.run(["pgrep", "-P", str(bridge.pid)], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    bridge.kill()
    until(lambda: not any(os.path.exists(f"/proc/{worker}") for worker in workers), "its workers, which hold its lock, have ended")
    doctor.says(1, "missing +a bridge: none serves this region", "start barcuda-bridge", named=True)


def test_a_file_that_is_no_region(doctor):
    doctor.region.path.write_bytes(b"junk\n" * (60 << 20))
    doctor.says(1, "missing +a region", "not a Barcuda region", named=True)


def test_a_file_that_is_too_short(doctor):
    doctor.region.path.write_text("junk\n")
    doctor.says(1, "missing +a region", "not a Barcuda region", named=True)


def test_a_folder_where_a_region_should_be(doctor):
    doctor.region.path.mkdir()
    doctor.says(1, "missing +a region", named=True)


# ---- a guest -----------------------------------------------------------------------------------------------------------------------------
@pytest.fixture
def device(own_mounts):
    """A guest's ivshmem device, as its kernel shows it."""
    PCI.mkdir()
    (PCI / "vendor").write_text("0x1af4\n")
    (PCI / "device").write_text("0x1110\n")
    yield
    shutil.rmtree(PCI)


@pytest.fixture
def module(device):
    """The guest's module is loaded."""
    MODULE.mkdir()
    yield
    MODULE.rmdir()


def test_a_guests_packages_and_no_device(doctor):
    doctor.says(1, "missing +a device of Barcuda's: .*neither an ivshmem device nor virtio-pmem", "barcuda vm-config", where="guest")


def test_a_container_whose_region_is_gone(doctor):
    doctor.says(1, "missing +a region", "there is no such region", where="guest", named=True)


def test_a_device_without_its_module(doctor, device):
    doctor.says(2, "missing +kernel module uio_barcuda", "modprobe uio_barcuda", where="guest")


def test_a_device_whose_module_made_no_uio_device(doctor, module):
    doctor.says(1, "missing +a region", "no region found", where="guest")


def test_commands_of_hosts_say_what_to_do_in_a_guest_instead(doctor, module):
    ran = doctor.run("guest", "run", "--", "true")
    assert ran.status == 125 and re.search("^barcuda run: this is a guest, .*`barcuda exec PROGRAM`", ran.said), ran
    for command in ["ps"], ["top", "--once"]:
        ran = doctor.run("guest", *command)
        assert ran.status == 0 and re.search("This is a guest, .*`barcuda smi`", ran.said), ran
    ran = doctor.run("guest", "limit")
    assert ran.status != 0 and "This is a guest" in ran.said, ran
    ran = doctor.run("guest", "guest")
    assert ran.status == 0 and re.search("^device *ivshmem 0000:00:05.0$", ran.said, re.M), ran


def test_a_guest_with_all_that_it_needs(doctor, module):
    doctor.serve()
    doctor.says(0, "ok +kernel module uio_barcuda is loaded", where="guest", named=True)


def test_a_guest_whose_bridge_has_ended(doctor, module):
    doctor.serve()
    doctor.region.stop()
    doctor.says(1, "missing +a bridge: none serves this region", "on the host", where="guest", named=True)


def test_a_guests_service_that_has_ended(doctor):
    Path("/run/barcuda").mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as service:
        service.bind("/run/barcuda/guest.sock")
    doctor.says(2, "missing +the guest's service: it has ended", "systemctl enable --now barcuda-guest", where="guest")
    Path("/run/barcuda/guest.sock").unlink()
