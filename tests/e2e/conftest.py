# SPDX-License-Identifier: Apache-2.0
"""conftest.py: what flat tests get by name. Each test has regions and folders of its own, and leaves nothing behind."""
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from e2e.flat import BUILD, DEVICE, IS_ROOT, TOP, Region, run, succeed


@pytest.fixture(autouse=True, scope="session")
def at_the_top():
    """Programs run at the top of the tree, as from `make check`."""
    os.chdir(TOP)


def new_folder():
    return Path(tempfile.mkdtemp(prefix="barcuda-test-", dir="/dev/shm"))


@pytest.fixture
def scratch():
    """A folder of the test's own."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared():
    """A folder of the file's tests together, for what takes long to make."""
    folder = new_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def regions():
    """Makes regions: regions() is a new one."""
    made = []

    def one():
        made.append(Region())
        return made[-1]
    yield one
    for each in reversed(made):
        each.close()


@pytest.fixture
def region(regions):
    """A region of the test's own, which nothing serves yet."""
    return regions()


@pytest.fixture(scope="session")
def drivers_own():
    """MiB that NVIDIA's driver takes for each client, which count as the client's; 0 for the software GPU."""
    if DEVICE == "soft":
        return 0
    one = Region()
    try:
        one.serve("--no-vm", "--client-device-memory", "8G")
        said = one.client(BUILD / "e2e/quota", "facts").said
        free = re.search(r"free (\d+) total 8192 ", said)
        assert free, f"facts: {said}"
        return 8192 - int(free[1])
    finally:
        one.close()


@pytest.fixture(scope="module")
def carried(shared):
    """The files of a guest's packages, as they will be installed."""
    everything, folder = shared / "all", shared / "carried"
    succeed("make", "-s", "install", f"B={os.environ.get('BUILD', 'build')}", f"DESTDIR={everything}", "PREFIX=/usr", "LIBDIR=/usr/lib", patience=600)
    folder.mkdir()
    for names in succeed(TOP / "packaging/files", "barcuda-common", "barcuda-guest").splitlines():
        succeed("sh", "-c", f"cp -a --parents {names} '{folder}'", cwd=everything)
    shutil.rmtree(everything)
    return folder


# ---- mounts of a file's own ----------------------------------------------------------------------------------------------------------
OWN_SHM = "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
CLONE_NEWNS = 0x20000


def mounted(commands):
    """A namespace of mounts of this process's own, with these; its descriptor back to the old one. None where that may not be."""
    if not IS_ROOT or run("unshare", "--mount", "sh", "-c", commands).status:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["sh", "-c", f"mount --make-rprivate / && {commands}"], check=True)
    return before


def unmounted(before):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(before, CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(before)
    os.chdir(TOP)


@pytest.fixture(scope="module")
def own_shm():
    """A /dev/shm of the file's own, where that may be: for tests that ask all bridges, or stop some."""
    before = mounted(OWN_SHM)
    yield before is not None
    if before is not None:
        unmounted(before)


@pytest.fixture(scope="module")
def own_mounts(request):
    """The mounts that OWN_MOUNTS in the test's file makes: (what they are, commands). The tests are skipped where that may not be."""
    what, commands = request.module.OWN_MOUNTS
    if not IS_ROOT:
        pytest.skip(f"needs root, for {what} of its own")
    before = mounted(commands)
    if before is None:
        pytest.skip(f"may not mount {what} of its own")
    yield
    unmounted(before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """Beside a failure stands what the bridges have said."""
    report = (yield).get_result()
    if report.failed:
        report.sections += [("bridge: " + one.path.as_posix(), one.log) for one in Region.open_ones if one.bridge]


@pytest.fixture(scope="module")
def debian_packages(shared):
    """The folder of Debian's packages, made of what has been built, with the log of `make deb`. Without packages of debugging symbols, which take
    most of the time and are made in the same way, and compressed at xz's fastest level."""
    folder = shared / "packages"
    succeed("make", "-s", "deb", f"B={os.environ.get('BUILD', 'build')}", f"packages_folder={folder}",
            env={"DEB_BUILD_OPTIONS": "noautodbgsym", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}, patience=600)
    return folder
