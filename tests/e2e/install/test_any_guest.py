# SPDX-License-Identifier: Apache-2.0
"""A guest's packages work with the oldest and the newest glibc that Debian has, in a root that holds that glibc and nothing else: commands, and
programs with the shared and with the static runtime, built for old systems as the packages are.

  ROOTS="FOLDER ..."   in these roots instead (of debootstrap, or exported from containers of other distributions)
  RELEASES="NAME ..."  in those of these releases; default: bullseye trixie
  MIRROR=URL           Debian's archive; default: http://deb.debian.org/debian
"""
import os
import re
import shutil
from pathlib import Path

import pytest

from e2e.flat import BUILD, IS_ROOT, TOP, Region, need, not_sanitized, run, written

VERSION = (TOP / "VERSION").read_text().strip()
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
ROOTS, RELEASES = os.environ.get("ROOTS", "").split(), (os.environ.get("RELEASES") or "bullseye trixie").split()
MIRROR = os.environ.get("MIRROR") or "http://deb.debian.org/debian"
NO_OVERLAY = 77
PROGRAMS = sorted(path.name for path in (BUILD / "any-glibc").glob("*"))
pytestmark = not_sanitized("what runs under a sanitizer is for this machine")


def fetch(release, folder, scratch):
    """The libc of a release, which signed lists vouch for, in the folder; nothing of this machine's apt is used or changed. Why it is not there."""
    place = scratch / f"apt-{release}"
    for part in "lists/partial", "cache/archives/partial":
        (place / part).mkdir(parents=True)
    (place / "status").touch()
    written(place / "sources", f"deb [signed-by={KEYS}] {MIRROR} {release} main\n")
    options = {"Dir::Etc::SourceList": place / "sources", "Dir::Etc::SourceParts": "-", "Dir::State": place, "Dir::State::Lists": place / "lists",
               "Dir::State::status": place / "status", "Dir::Cache": place / "cache", "APT::Architecture": "amd64", "APT::Sandbox::User": "",
               "Acquire::Languages": "none", "Acquire::http::Timeout": 20, "Acquire::Retries": 0, "Acquire::Check-Valid-Until": "false",
               "APT::Update::Error-Mode": "any"}
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    for command in ["update"], ["download", "libc6"]:
        ran = run(*apt, *command, cwd=place, patience=300)
        if ran.status:
            return ran.said.strip().splitlines()[-1:]
    for name in "lib", "lib64":
        (folder / "usr" / name).mkdir(parents=True)
        (folder / name).symlink_to(f"usr/{name}")
    package, = place.glob("libc6_*.deb")
    ran = run("dpkg-deb", "-x", package, folder)
    return ran.said if ran.status else None


class Root:
    """A root over which the packages' files lie, and which has this machine's devices and processes."""

    def __init__(self, root, scratch, region):
        self.start = ["env", "-i", f"BARCUDA_REGION={region.path}", "PATH=/usr/bin:/bin", "unshare", "--mount", *([] if IS_ROOT else ["--map-root-user"]),
                      "/bin/bash", "-c", f"""
                      mount -t overlay overlay -o "lowerdir=$0/carried:$1" "$0/merged" || exit {NO_OVERLAY}
                      for folder in dev proc; do mount --rbind "/$folder" "$0/merged/$folder" || exit {NO_OVERLAY}; done
                      cd / && exec /usr/sbin/chroot "$0/merged" "${{@:2}}" """, scratch, root]

    def run(self, *command):
        ran = run(*self.start, *command)
        if ran.status == NO_OVERLAY:
            pytest.skip(f"no overlay can be mounted: {ran.said}")
        return ran


@pytest.fixture(scope="module")
def guest(carried):
    """The files of a guest's packages, and the programs; and a bridge."""
    need("apt-get", "dpkg-deb", "unshare")
    shutil.copytree(BUILD / "any-glibc", carried / "programs")
    for folder in carried / "dev", carried / "proc", carried.with_name("merged"):
        folder.mkdir()
    region = Region()
    try:
        region.serve(size="256M")
        yield region
    finally:
        region.close()


@pytest.fixture(scope="module", params=ROOTS or RELEASES, ids=lambda root: Path(root).name)
def root(request, guest, shared):
    place = Path(request.param) if ROOTS else shared / request.param
    if not ROOTS and (why := fetch(request.param, place, shared)):
        pytest.skip(f"libc6 of {request.param} is not available: {why}")
    return Root(place, shared, guest)


def test_barcuda_says_its_version(root):
    ran = root.run("/usr/bin/barcuda", "--version")
    assert ran.out.startswith(f"{VERSION},"), ran


def test_doctor_finds_all_that_a_guest_needs(root):
    ran = root.run("/usr/bin/barcuda", "doctor")
    assert ran.status == 0, ran


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_passes(root, program):
    ran = root.run("/usr/bin/barcuda", "exec", "--", f"/programs/{program}")
    assert re.search("^PASSED", ran.out, re.M), ran
