#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest's Debian packages are installed by apt in a root of each of Debian's releases that docs/distributions.md promises, and removed again
# without a trace. The module's package, whose compiler and headers are large, is only resolved.
#
#   RELEASES="NAME ..."  these releases; default: bullseye bookworm trixie
#   MIRROR=URL           Debian's archive; default: http://deb.debian.org/debian
. "$(dirname "$0")/../lib.sh"
for tool in mmdebstrap dpkg-buildpackage dh dh_dkms help2man; do need $tool; done
case $build in *address* | *thread*) echo "skipped: packages are not made of a build under a sanitizer"; exit 77 ;; esac
export TMPDIR=/var/tmp # /dev/shm may be mounted without devices
DEB_BUILD_OPTIONS=noautodbgsym make -s deb B="$build" packages_folder="$scratch/packages" > "$scratch/make" 2>&1 ||
    fail "make deb: $(cat "$scratch/make")"
chmod 755 "$scratch" "$scratch/packages" # mmdebstrap may be another user

cat > "$scratch/try" << 'T'
#!/bin/sh
# In the root $1: says so in a line of its own, by which the test knows that there was a root.
echo "there is a root"
root=$1; shift
fail() { echo "FAILED: $*"; exit 1; }
mkdir "$root/packages" && cp "$@" "$root/packages"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }
traces() { (cd "$root" && find . -xdev \( -path ./packages -o -path ./proc -o -path ./sys -o -path ./dev -o -path './var/*' \) -prune -o -iname '*barcuda*' -print); }
inside sh -c 'apt-get install -y -q --no-install-recommends /packages/barcuda-common_*.deb /packages/barcuda-guest_*.deb' || fail "apt-get install"
case "$(inside barcuda --version)" in "$(cat VERSION),"*) ;; *) fail "barcuda --version: $(inside barcuda --version)" ;; esac
inside getent group barcuda || fail "no group barcuda"
# Nothing gives this machine a device.
inside barcuda doctor > "$root/doctor"; [ $? = 1 ] && grep -q '^  ok *guest library: /usr/lib/barcuda/' "$root/doctor" || fail "doctor: $(cat "$root/doctor")"
inside sh -c 'apt-get install -s -q --no-install-recommends /packages/barcuda-dkms_*.deb' || fail "the module's package cannot be installed"
inside apt-get purge -y -q barcuda-guest barcuda-common || fail "apt-get purge"
[ -z "$(traces)" ] || fail "left: $(traces)"
T
chmod +x "$scratch/try"
for release in ${RELEASES:-bullseye bookworm trixie}; do
    timeout 540 mmdebstrap --quiet --variant=apt --format=null --include=systemd \
        --customize-hook="\"$scratch/try\" \"\$1\" $(printf '"%s" ' "$scratch"/packages/barcuda-common_*.deb "$scratch"/packages/barcuda-guest_*.deb "$scratch"/packages/barcuda-dkms_*.deb)" \
        "$release" /dev/null "${MIRROR:-http://deb.debian.org/debian}" > "$scratch/out" 2>&1
    status=$?
    grep -q '^there is a root$' "$scratch/out" || { echo "skipped: no root of $release can be made: $(tail -n 1 "$scratch/out")"; exit 77; }
    [ $status = 0 ] || fail "$release: $(tail -n 40 "$scratch/out")"
    echo "$release: installed and removed"
done
echo passed
