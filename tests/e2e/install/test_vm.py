# SPDX-License-Identifier: Apache-2.0
"""`barcuda vm`: the commands that it says it would run; what is wrong or missing is said before anything is made; and a VM that does not come
up, or whose start is interrupted, leaves no process and no file. (tests/vm/debian starts one that does.)"""
import os
import re
import signal
from pathlib import Path

import pytest

from e2e.flat import BARCUDA, TOP, Program, children, need, run, succeed, until

REFUSED = 125
MIB = 1 << 20
A_REGION = "/dev/shm/barcuda-vm-XXXXXX/region"
TOOLS = ["qemu-system-x86_64", "ssh", "ssh-keygen", "scp"]
DEBIANS_TOOLS = ["mmdebstrap", "genext2fs", "newuidmap"]


class Vm:
    """`barcuda vm` of a user whose home is not there yet."""

    def __init__(self, scratch):
        self.scratch, self.home = scratch, scratch / "home"
        self.environment = {"HOME": self.home, "XDG_CACHE_HOME": ""}
        self.packages = scratch / "packages"
        self.packages.mkdir()
        self.image = scratch / "disk,1"
        with open(self.image, "wb") as file:
            file.truncate(64 * MIB)

    def would_run(self, *words):
        """The commands, by `--dry-run`."""
        said = succeed(BARCUDA, "vm", "--dry-run", *words, env=self.environment)
        assert not self.home.exists(), "--dry-run has made a folder"
        return said

    def refuses(self, why, *words, tools=None):
        ran = run(BARCUDA, "vm", *words, env={**self.environment, **({"PATH": tools} if tools else {})})
        assert ran.status == REFUSED and re.search(why, ran.said), ran

    def make_packages(self):
        for name in "barcuda-common_1_amd64.deb", "barcuda-guest_1_all.deb":
            (self.packages / name).touch()


@pytest.fixture
def vm(scratch):
    return Vm(scratch)


def test_it_would_make_debians_root_and_start_a_bridge_and_qemu_and_ssh(vm):
    said = vm.would_run("--region-size", "1G", "--put", "/etc/hostname", "--", "./my", "two words")
    assert re.search("^env TMPDIR=/var/tmp mmdebstrap ", said, re.M) and \
        re.search(f" bookworm {vm.home}/.cache/barcuda/debian-bookworm/root.img$", said, re.M), f"Debian's root is not made: {said}"
    assert re.search(f"^[^ ]*/barcuda-bridge --region {A_REGION} --size 1073741824 ", said, re.M), said
    options = succeed(BARCUDA, "vm-config", "--qemu", "x", "--virtio-pmem", "--memory", "2G", "--size", "1G", "--region", A_REGION).strip()
    assert re.search(f"^qemu-system-x86_64 .* {re.escape(options)} .*,snapshot=on .*label=CIDATA", said, re.M), \
        f"QEMU is not started as vm-config has it: {said}"
    assert said.splitlines()[-1] == r"ssh -F /dev/shm/barcuda-vm-XXXXXX/ssh vm './my '\''two words'\''; exit $?'", said


def test_with_the_module_it_would_give_the_vm_an_ivshmem_device_with_a_doorbell(vm):
    said = vm.would_run("--module", "--debian", "trixie")
    assert "-device ivshmem-doorbell,chardev=barcuda,vectors=1 " in said and re.search("barcuda-bridge .*--doorbell ", said), said


def test_an_image_is_started_by_its_own_kernel_and_written_to_where_that_is_asked_for(vm):
    said = vm.would_run("--write", "--image", vm.image)
    assert f"file={vm.scratch}/disk,,1,format=raw,snapshot=off" in said and "-kernel" not in said, said
    with open(vm.image, "r+b") as file:
        file.write(b"QFI\xfb")
    assert "format=qcow2,snapshot=on" in (said := vm.would_run("--image", vm.image)), said


def test_wrong_options_are_refused_with_the_reason(vm):
    vm.refuses("trixie", "--debian", "jessie")
    vm.refuses("--image excludes|--debian excludes", "--image", vm.image, "--debian", "trixie")
    vm.refuses("no/disk: No such file", "--image", vm.scratch / "no/disk")
    vm.refuses("lower-case letters", "--user", "a b")
    vm.refuses("no/file: No such file", "--put", vm.scratch / "no/file")
    vm.refuses("a bridge makes it", "--region", vm.scratch / "none")
    vm.refuses("excludes", "--region", vm.scratch / "none", "--device", "soft")


def test_what_is_missing_is_named_with_the_package_that_has_it(vm):
    tools = vm.scratch / "bin"
    tools.mkdir()
    vm.refuses("qemu-system-x86_64, ssh, ssh-keygen, scp are missing: apt install --no-install-recommends qemu-system-x86 openssh-client$",
               "--image", vm.image, tools=tools)
    (tools / TOOLS[0]).symlink_to("/bin/true")
    vm.refuses("ssh, ssh-keygen, scp are missing: apt install --no-install-recommends openssh-client$", "--image", vm.image, tools=tools)
    for tool in TOOLS[1:]:
        (tools / tool).symlink_to("/bin/true")
    vm.refuses("(mmdebstrap, )?genext2fs.* missing: apt install --no-install-recommends (mmdebstrap )?genext2fs", tools=tools)
    for tool in DEBIANS_TOOLS:
        (tools / tool).symlink_to("/bin/true")
    vm.refuses(r"has no barcuda-common_\*.deb: --packages .*make deb", "--packages", vm.packages, tools=tools)


def test_readme_and_the_hosts_package_name_what_a_vm_needs(vm):
    """The tools that are missing where there are none, except for those that only some users need (resize2fs is in /sbin for all)."""
    tools = vm.scratch / "none"
    tools.mkdir()
    said = run(BARCUDA, "vm", env={**vm.environment, "PATH": tools}).err
    needed = set(re.search("apt install --no-install-recommends (.*)", said)[1].split())
    assert {"qemu-system-x86", "openssh-client", "mmdebstrap", "genext2fs"} <= needed, said
    readme = re.search("^sudo apt install --no-install-recommends (.*)$", (TOP / "README.md").read_text(), re.M)[1].split("#")[0].split()
    suggested = re.search(r"^Package: barcuda-host\n(?:.+\n)*?Suggests: ((?:.+\n)(?: .+\n)*)", (TOP / "debian/control").read_text(), re.M)[1]
    for names in readme, re.split(r"[,\s]+", suggested):
        assert needed | {"e2fsprogs", "uidmap"} <= {*names, "debian-archive-keyring"}, names


class Started:
    """A VM that will not come up, since nothing can be started from an empty disk: its folder, and QEMU runs."""

    def __init__(self, vm, seconds):
        need("qemu-system-x86_64", "ssh-keygen")
        vm.make_packages()
        self.vm = vm
        self.program = Program(vm.scratch, "vm", [BARCUDA, "vm", "--image", vm.image, "--packages", vm.packages, "--device", "soft", "--region-size",
                                                  "1G", "--memory", "256M", "--timeout", seconds, "--", "true"], env=vm.environment)
        self.folder = until(self.has_folder, lambda: f"it has a folder and QEMU: {self.program}")

    def has_folder(self):
        assert self.program.runs(), self.program
        bridges = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children(self.program.pid, "--region")]
        regions = [words[words.index(b"--region") + 1].decode() for words in bridges if b"--region" in words]
        return children(self.program.pid, "qemu") and regions and Path(regions[0]).parent

    def left_nothing(self):
        assert not self.folder.exists()
        assert not (left := run("pgrep", "-fa", f"region {self.folder}/region|mem-path={self.folder}/").out), left
        with open(self.vm.image, "rb") as image:
            assert image.read() == bytes(64 * MIB), "the image was written to"


def test_a_vm_that_does_not_come_up_leaves_nothing(vm):
    started = Started(vm, 2)
    assert started.program.wait() == REFUSED and "has said nothing for 2 s" in started.program.log, started.program
    started.left_nothing()


def test_a_vm_whose_start_is_interrupted_leaves_nothing(vm):
    started = Started(vm, 60)
    assert started.program.kill(signal.SIGTERM) in (-signal.SIGTERM, 128 + signal.SIGTERM), started.program
    started.left_nothing()
