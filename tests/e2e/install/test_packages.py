# SPDX-License-Identifier: Apache-2.0
"""The packages: lintian finds nothing wrong with them; installed, in a copy of this machine's root without this tree, the bridge runs as its
unit would run it, and programs with it; purged, nothing of them is left. (The copy is an overlay in a namespace of mounts.)"""
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from e2e.flat import BUILD, TOP, Program, lacks, not_sanitized, run, succeed

VERSION = (TOP / "VERSION").read_text().strip()
NAMES = ["barcuda-common", "barcuda-dkms", "barcuda-doc", "barcuda-guest", "barcuda-host", "barcuda-soft"] + \
    ["barcuda-windows-guest"] * (BUILD / "lib/barcuda-windows/barcuda.exe").exists()  # `make windows`
TOOLS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "dh_dkms": "dh-dkms", "lintian": "lintian",
         "systemd-analyze": "systemd", "unshare": "util-linux"}
pytestmark = not_sanitized("packages are not made of a build under a sanitizer")
NAME = f"test-{os.getpid()}"  # the bridge's
REGION = f"/dev/shm/barcuda-{NAME}"


@pytest.fixture(scope="module")
def overlay(shared):
    """Folders of an overlay of /, which this user may mount."""
    if missing := lacks(TOOLS):
        pytest.skip(f"not installed: {' '.join(missing)}")
    for name in "upper", "work", "root":
        (shared / name).mkdir()
    if run("unshare", "--mount", "sh", "-c", mount(shared)).status:
        pytest.skip("this user cannot mount an overlay of /")
    return shared


def mount(folder):
    return f"mount -t overlay overlay -o lowerdir=/,upperdir={folder}/upper,workdir={folder}/work {folder}/root"


@pytest.fixture(scope="module")
def packages(overlay, debian_packages):
    return debian_packages


def of(packages, name):
    """The file of one package."""
    file, = packages.glob(f"{name}_*.deb")
    return file


def text_in(package, path):
    """What a compressed page of a package says."""
    return succeed("sh", "-ec", f"dpkg-deb --fsys-tarfile {shlex.quote(str(package))} | tar -xO {path} | gzip -dc")


def one_line(text):
    return " ".join(text.split())


def test_packages_are_made_of_what_has_been_built(packages):
    compiled = re.findall("^  (?:CXX|LINK|NVCC).*", (packages / "log").read_text(), re.M)
    assert not compiled, "make deb has compiled something"


def test_packages_are_of_the_version_that_the_file_names(packages):
    assert sorted(file.name.partition("_")[0] for file in packages.glob("*.deb")) == NAMES
    assert {succeed("dpkg-deb", "-f", file, "Version").strip() for file in packages.glob("*.deb")} == {VERSION}


@pytest.mark.parametrize("package, program, option", [
    ("barcuda-common", "man1/barcuda-run.1", "host..libraries"), ("barcuda-host", "man8/barcuda-bridge.8", "print..config"),
    ("barcuda-host", "man5/barcuda.conf.5", "client..device..memory")])
def test_pages_of_the_manual_have_the_programs_options(packages, package, program, option):
    assert re.search(option, text_in(of(packages, package), f"./usr/share/man/{program}.gz"))


def test_what_has_changed_is_in_the_changelog_word_for_word(packages):
    changes = re.split("^- ", (TOP / "CHANGELOG.md").read_text(), flags=re.M)
    assert one_line(changes[1]) in one_line(text_in(of(packages, "barcuda-common"), "./usr/share/doc/barcuda-common/changelog.gz"))


def test_lintian_finds_nothing_wrong(packages):
    changes, = packages.glob("*.changes")
    ran = run("lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", changes, patience=600)
    assert ran.status == 0 and not re.search("^[EW]: ", ran.said, re.M), ran


class Root:
    """A copy of this machine's root in which the packages are installed. /run is the copy's own; the kernel's folders, and /dev/shm with what
    these tests have made, are this machine's. Nothing of this tree is there."""

    def __init__(self, folder, packages):
        self.folder = folder
        root = folder / "root"
        script = [mount(folder), *(f"mount --rbind /{name} {root}/{name}" for name in ("proc", "sys", "dev")),
                  *(f"mount -t tmpfs none {root}/{name}" for name in ("run", "tmp")), f"mount -t tmpfs none {root}{TOP}",
                  f"exec chroot {root} sh -c 'cd / && echo ready && exec sleep infinity'"]
        self.holder = Program(folder, "holder", ["unshare", "--mount", "sh", "-ec", "\n".join(script)])
        self.holder.wait_for("^ready$")
        files = sorted(packages.glob("*.deb"))
        self.has_dkms = self.run("sh", "-c", "command -v dkms").status == 0
        if not self.has_dkms:  # on which the package of the module depends
            files = [file for file in files if "dkms" not in file.name]
        # Without triggers: others', and slow (all pages of the manual).
        self.said_dpkg = self.succeed("dpkg", "--no-triggers", "-i", *files)
        self.unit = self.succeed("cat", "/usr/lib/systemd/system/barcuda-bridge@.service")

    def command(self, *command):
        """The program in that root, as this user."""
        at = f"/proc/{self.holder.pid}"
        return ["nsenter", f"--mount={at}/ns/mnt", f"--root={at}/root", f"--wd={at}/root", *command]

    def run(self, *command, **how):
        return run(*self.command(*command), **{"patience": 300, **how})

    def succeed(self, *command, **how):
        return succeed(*self.command(*command), **{"patience": 300, **how})

    def says(self, key):
        """What the unit says of it, as systemd would read it."""
        return "\n".join(re.findall(f"^{key}=(.*)$", self.unit, re.M)).replace("%i", NAME).replace("%C", "/var/cache")

    @property
    def environment(self):
        return ["env", "-i", "PATH=/usr/bin:/bin", *self.says("Environment").split()]

    @property
    def umask(self):
        return int(self.says("UMask"), 8)

    def as_unit(self, *command):
        """The command as the unit's user."""
        return self.run(*self.environment, "setpriv", f"--reuid={self.says('User')}", f"--regid={self.says('Group')}", "--init-groups",
                        "--bounding-set=-all", "--no-new-privs", *command, umask=self.umask)

    def owner(self, path):
        return self.succeed("stat", "-c", "%U:%G:%a", path).strip()


@pytest.fixture(scope="module")
def installed(overlay, packages):
    overlay.chmod(0o755)
    shutil.copy(BUILD / "programs/vector_add", overlay)
    (overlay / "vector_add").chmod(0o755)
    root = Root(overlay, packages)
    yield root
    root.holder.kill()
    Path(REGION).unlink(missing_ok=True)


def test_the_modules_package_builds_it_for_each_kernel_whose_headers_are_there(installed):
    if not installed.has_dkms:
        pytest.skip("dkms is not installed")
    for headers in installed.succeed("sh", "-c", "ls -d /lib/modules/6.1.*/build || true").split():
        kernel = headers.split("/")[3]
        status = installed.succeed("dkms", "status")
        assert re.search(f"^barcuda/.*, {re.escape(kernel)}, .*installed", status, re.M), f"{kernel}: {status}{installed.said_dpkg}"


def test_installed_there_are_the_user_the_group_the_folder_and_the_commands(installed):
    installed.succeed("id", "barcuda")
    installed.succeed("getent", "group", "barcuda")
    assert installed.succeed("stat", "-c", "%U:%a", "/run/barcuda") == "root:755\n"
    assert installed.succeed("sh", "-c", "command -v barcuda; command -v barcuda-bridge").split() == ["/usr/bin/barcuda", "/usr/bin/barcuda-bridge"]
    ran = installed.run("barcuda", "doctor")
    assert re.search("^  ok  *links: /usr/lib/barcuda/barcuda/", ran.out, re.M), ran


def test_the_loader_does_not_find_libraries_that_only_programs_of_barcudas_are_told_of(installed):
    assert "barcuda" not in installed.succeed("ldconfig", "-p").lower()
    installed.succeed("ldconfig")
    assert "barcuda" not in installed.succeed("ldconfig", "-p").lower()


def test_systemd_finds_nothing_wrong_with_the_unit(installed):
    ran = installed.run("systemd-analyze", "verify", "--man=no", f"barcuda-bridge@{NAME}.service")
    assert ran.status == 0 and "barcuda" not in ran.said, ran


@pytest.fixture
def bridge(installed):
    """The bridge as its unit has it, as far as that is possible without systemd: environment, user, group and umask. As "!" has systemd start
    it: root with two capabilities. It becomes the unit's user itself."""
    says, script = installed.says, []
    script += [f"install -d -o {says('User')} -g {says('Group')} -m {says('RuntimeDirectoryMode')} /run/{says('RuntimeDirectory')}",
               f"barcuda-bridge --print-config > /etc/barcuda/{NAME}.conf",
               f"sed -i 's/^#device = .*/device = \"soft\"/; s/^#size = .*/size = 256M/' /etc/barcuda/{NAME}.conf"]
    installed.succeed("sh", "-ec", "\n".join(script))
    ready, sends = os.pipe()
    start = says("ExecStart").removeprefix("!").split()
    program = Program(installed.folder, "bridge", installed.command(
        *installed.environment, "setpriv", "--bounding-set=-all,+setuid,+setgid", "--no-new-privs", *start, "--ready-fd", str(sends)),
        pass_fds=[sends], umask=installed.umask)
    os.close(sends)
    came_up = os.read(ready, 1)
    os.close(ready)
    assert came_up, program
    yield program
    program.kill(signal.SIGTERM)


def test_the_units_bridge_serves_programs_and_its_region_and_doorbell_are_for_qemus_user(installed, bridge):
    assert installed.owner(REGION) == "barcuda:kvm:660"
    assert installed.owner(f"/run/barcuda/{NAME}/doorbell") == "barcuda:kvm:660"
    ran = installed.as_unit("env", "LD_PRELOAD=/usr/lib/barcuda/libbarcuda.so", "LD_LIBRARY_PATH=/usr/lib/barcuda/barcuda", installed.folder / "vector_add")
    assert re.search("^PASSED", ran.out, re.M), f"{ran}{bridge}"
    bridge.wait_for("admitted")
    assert bridge.kill(signal.SIGTERM) == 0, bridge


def test_a_reload_puts_the_bridge_of_a_newer_package_in_the_place_of_the_units(installed, bridge):
    """The keeper is root with two capabilities, which may not kill a bridge that has become another user; the command runs as that user."""
    installed.succeed("sh", "-ec", "cp -p /usr/bin/barcuda-bridge /usr/bin/newer && mv /usr/bin/newer /usr/bin/barcuda-bridge")
    ran = installed.as_unit(*installed.says("ExecReload").split())
    assert ran.status == 0 and re.search(" of /usr/bin/barcuda-bridge serves in place of ", ran.out), f"{ran}{bridge}"
    user = installed.succeed("id", "-u", "barcuda").strip()
    pid = re.search(r"\(pid (\d+)\)", ran.out)[1]
    assert re.search(rf"^Uid:\t{user}\t{user}\t", Path(f"/proc/{pid}/status").read_text(), re.M)
    ran = installed.as_unit("env", "LD_PRELOAD=/usr/lib/barcuda/libbarcuda.so", "LD_LIBRARY_PATH=/usr/lib/barcuda/barcuda", installed.folder / "vector_add")
    assert re.search("^PASSED", ran.out, re.M), f"{ran}{bridge}"
    ran = installed.as_unit("barcuda", "upgrade", "--binary", "/bin/false")
    assert ran.status == 1 and "Nothing was changed" in ran.err, ran
    assert bridge.kill(signal.SIGTERM) == 0, bridge


def test_programs_run_with_the_software_gpu_of_the_packages(installed):
    ran = installed.run("barcuda", "run", "--device", "soft", "--region-size", "256M", "--", installed.folder / "vector_add")
    assert re.search("^PASSED", ran.out, re.M), ran


def test_the_demo_of_the_packages_runs_without_a_toolkit(installed):
    ran = installed.run("barcuda", "demo", "--device", "soft", "--region-size", "512M")
    assert ran.status == 0 and ran.out.endswith("\nPASSED\n"), ran


def test_purged_nothing_of_the_packages_is_left(installed, bridge):
    """A bridge leaves its region, which is purged too. What is in the overlay has been written, and is there still; the rest is dpkg's records.
    The last test, since the packages are gone."""
    assert bridge.kill(signal.SIGTERM) == 0 and os.path.exists(REGION), bridge
    names = installed.succeed("dpkg-query", "-W", "-f", "${Package}\n", "barcuda-*").split()
    installed.succeed("dpkg", "--no-triggers", "--purge", *names)
    assert not os.path.exists(REGION)
    assert installed.run("test", "-e", "/run/barcuda").status, "/run/barcuda is left"
    left = succeed("find", ".", "-iname", "*barcuda*", "!", "-type", "c", "!", "-path", "./var/lib/dpkg/info/*.list", cwd=installed.folder / "upper")
    assert not left, left
