# SPDX-License-Identifier: Apache-2.0
"""A guest's Debian packages are installed by apt in a root of each of Debian's releases that docs/install.md promises, and removed again
without a trace. The module's package, whose compiler and headers are large, is only resolved.

  RELEASES="NAME ..."  these releases; default: bullseye bookworm trixie
  MIRROR=URL           Debian's archive; default: http://deb.debian.org/debian
"""
import os
import shlex

import pytest

from e2e.flat import TOP, need, not_sanitized, run, written

RELEASES = (os.environ.get("RELEASES") or "bullseye bookworm trixie").split()
MIRROR = os.environ.get("MIRROR") or "http://deb.debian.org/debian"
VERSION = (TOP / "VERSION").read_text().strip()
THERE_IS_A_ROOT = "there is a root"
pytestmark = not_sanitized("packages are not made of a build under a sanitizer")

# mmdebstrap runs it with the new root, which is gone afterwards.
TRIES = f"""#!/bin/sh
# In the root $1, with the packages behind it. It says in a line of its own that there was a root.
echo "{THERE_IS_A_ROOT}"
root=$1; shift
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
inside apt-get purge -y -q barcuda-guest barcuda-common || fail "apt-get purge"
[ -z "$(traces)" ] || fail "left: $(traces)"
"""


@pytest.fixture(scope="module")
def tries(shared, request):
    """The command that tries the packages in a root."""
    need("mmdebstrap", "dpkg-buildpackage", "dh", "dh_dkms")
    packages = request.getfixturevalue("debian_packages")
    for folder in shared, packages:
        folder.chmod(0o755)  # mmdebstrap may be another user
    script = written(shared / "try", TRIES)
    script.chmod(0o755)
    files = [file for name in ("common", "guest", "dkms") for file in packages.glob(f"barcuda-{name}_*.deb")]
    assert len(files) == 3, files
    return f'{shlex.quote(str(script))} "$1" {shlex.join(map(str, files))}'


@pytest.mark.parametrize("release", RELEASES)
def test_apt_installs_and_removes_a_guests_packages(tries, release):
    ran = run("mmdebstrap", "--quiet", "--variant=apt", "--format=null", "--include=systemd", f"--customize-hook={tries}", release, "/dev/null", MIRROR,
              env={"TMPDIR": "/var/tmp"}, patience=540)  # /dev/shm may be mounted without devices
    if THERE_IS_A_ROOT not in ran.said.splitlines():
        pytest.skip(f"no root of {release} can be made: {ran.said.strip().splitlines()[-1:]}")
    assert ran.status == 0, "\n".join(ran.said.splitlines()[-40:])
