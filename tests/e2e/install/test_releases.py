# SPDX-License-Identifier: Apache-2.0
"""The packages are installed by apt in a root of each release of Debian and Ubuntu that docs/install.md promises, and removed again without a
trace: a guest's, the software GPU's, and a host's where its release is not too old, which then runs a CUDA program. The module's package, whose
compiler and headers are large, is only resolved.

  RELEASES="NAME ..."  these releases; default: bullseye bookworm trixie, and jammy noble where Ubuntu's key is (package ubuntu-keyring),
                       but this machine's own: test_packages.py installs the packages there
  MIRROR=URL           their archive; default: http://deb.debian.org/debian, http://archive.ubuntu.com/ubuntu
"""
import os
import platform
import shlex
from pathlib import Path

import pytest

from e2e.flat import TOP, need, not_sanitized, run, written

DEBIANS, UBUNTUS = ["bullseye", "bookworm", "trixie"], ["jammy", "noble"]
HERE = platform.freedesktop_os_release().get("VERSION_CODENAME")
THERE = DEBIANS + (UBUNTUS if Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg").exists() else [])
RELEASES = os.environ.get("RELEASES", "").split() or [release for release in THERE if release != HERE]
TOO_OLD_FOR_A_HOST = {"bullseye"}  # of these packages: glibc 2.31
VERSION = (TOP / "VERSION").read_text().strip()
THERE_IS_A_ROOT = "there is a root"
pytestmark = not_sanitized("packages are not made of a build under a sanitizer")

# mmdebstrap runs it with the new root, which is gone afterwards.
TRIES = f"""#!/bin/sh
# In the root $2, of a host or not as $1 says, with the packages behind it. It says in a line of its own that there was a root.
echo "{THERE_IS_A_ROOT}"
host=$1 root=$2; shift 2
""" + r"""
fail() { echo "FAILED: $*"; exit 1; }
mkdir "$root/packages" && cp "$@" "$root/packages"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }
traces() { (cd "$root" && find . -xdev \( -path ./packages -o -path ./proc -o -path ./sys -o -path ./dev -o -path './var/*' \) -prune -o -iname '*barcuda*' -print); }
inside sh -c 'apt-get install -y -q --no-install-recommends /packages/barcuda-common_*.deb /packages/barcuda-guest_*.deb' || fail "apt-get install"
""" + f"""
case "$(inside barcuda --version)" in "{VERSION},"*) ;; *) fail "barcuda --version: $(inside barcuda --version)" ;; esac
""" + r"""
inside getent group barcuda || fail "no group barcuda"
# Nothing gives this machine a device.
inside barcuda doctor > "$root/doctor"; [ $? = 1 ] && grep -q '^  ok *guest library: /usr/lib/barcuda/' "$root/doctor" || fail "doctor: $(cat "$root/doctor")"
inside sh -c 'apt-get install -s -q --no-install-recommends /packages/barcuda-dkms_*.deb' || fail "the module's package cannot be installed"
inside sh -c 'apt-get install -y -q --no-install-recommends /packages/barcuda-soft_*.deb' || fail "the software GPU cannot be installed"
if [ "$host" = host ]; then
    inside sh -c 'apt-get install -y -q --no-install-recommends /packages/barcuda-host_*.deb' || fail "the host's package cannot be installed"
    mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm" || fail "no /dev/shm"
    inside barcuda demo --device soft > "$root/demo" 2>&1; status=$?
    umount --lazy "$root/dev/shm"  # the bridge may still be ending
    [ $status = 0 ] && grep -q '^PASSED$' "$root/demo" || fail "barcuda demo: status $status, $(cat "$root/demo")"
fi
inside apt-get purge -y -q 'barcuda-*' || fail "apt-get purge"
[ -z "$(traces)" ] || fail "left: $(traces)"
"""


@pytest.fixture(scope="module")
def tries(shared, request):
    """The command that tries the packages in a root of a release."""
    need("mmdebstrap", "dpkg-buildpackage", "dh", "dh_dkms")
    packages = request.getfixturevalue("debian_packages")
    for folder in shared, packages:
        folder.chmod(0o755)  # mmdebstrap may be another user
    script = written(shared / "try", TRIES)
    script.chmod(0o755)
    files = [file for name in ("common", "guest", "dkms", "soft", "host") for file in packages.glob(f"barcuda-{name}_*.deb")]
    assert len(files) == 5, files
    return lambda release: f'{shlex.quote(str(script))} {"guest" if release in TOO_OLD_FOR_A_HOST else "host"} "$1" {shlex.join(map(str, files))}'


@pytest.mark.parametrize("release", RELEASES)
def test_apt_installs_and_removes_the_packages(tries, release):
    mirror = os.environ.get("MIRROR") or ("http://archive.ubuntu.com/ubuntu" if release in UBUNTUS else "http://deb.debian.org/debian")
    ran = run("mmdebstrap", "--quiet", "--variant=apt", "--format=null", "--include=systemd", *(["--components=main,universe"] if release in UBUNTUS else []),
              f"--customize-hook={tries(release)}", release, "/dev/null", mirror,
              env={"TMPDIR": "/var/tmp"}, patience=540)  # /dev/shm may be mounted without devices
    if THERE_IS_A_ROOT not in ran.said.splitlines():
        pytest.skip(f"no root of {release} can be made: {ran.said.strip().splitlines()[-1:]}")
    assert ran.status == 0, "\n".join(ran.said.splitlines()[-40:])
