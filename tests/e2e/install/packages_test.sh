#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The packages: lintian finds nothing wrong with them; installed, in a copy of this machine's root without this tree, the bridge runs
# as its unit would run it, and programs with it; purged, nothing of them is left. (The copy is an overlay in a mount namespace.)
. "$(dirname "$0")/../lib.sh"
missing=
for pair in dpkg-buildpackage:dpkg-dev dh:debhelper dh_dkms:dh-dkms help2man:help2man lintian:lintian \
    systemd-analyze:systemd unshare:util-linux; do
    command -v "${pair%:*}" > /dev/null || missing+=" ${pair#*:}"
done
[ -z "$missing" ] || { echo "skipped: not installed:$missing"; exit 77; }
case $build in *address* | *thread*) echo "skipped: packages are not made of a build under a sanitizer"; exit 77 ;; esac
root=$scratch/root
mkdir "$scratch/upper" "$scratch/work" "$root"
unshare --mount mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root" 2> /dev/null ||
    { echo "skipped: this user cannot mount an overlay of /"; exit 77; }

# Of what has been built. Packages with the debugging symbols take most of the time, and are made in the same way.
DEB_BUILD_OPTIONS=noautodbgsym make -s deb B="$build" packages_folder="$scratch/packages" > "$scratch/make" 2>&1 ||
    fail "make deb: $(cat "$scratch/make")"
! grep -E '^  (CXX|LINK|NVCC)' "$scratch/packages/log" || fail "make deb has compiled something"
names=$(cd "$scratch/packages" && ls *.deb | sed 's/_.*//' | xargs)
[ "$names" = "barcuda-common barcuda-dkms barcuda-doc barcuda-guest barcuda-host barcuda-soft" ] || fail "these packages were made: $names"
for package in "$scratch"/packages/*.deb; do
    [ "$(dpkg-deb -f "$package" Version)" = "$(cat VERSION)" ] || fail "$package is not of the version that VERSION names"
done
page() { dpkg-deb --fsys-tarfile "$scratch"/packages/$1_*.deb | tar -xO "./usr/share/man/man1/$2.1.gz" | gzip -dc; }
page barcuda-common barcuda | grep -q 'host..libraries' || fail "the page of barcuda does not have the options of run"
page barcuda-host barcuda-bridge | grep -q 'print..config' || fail "the page of barcuda-bridge does not have its options"
# What has changed is in the changelog, word for word.
words() { tr -s ' \n' ' '; }
dpkg-deb --fsys-tarfile "$scratch"/packages/barcuda-common_*.deb | tar -xO ./usr/share/doc/barcuda-common/changelog.gz | gzip -dc | words > "$scratch/changelog"
changed=$(awk '/^- / { if (++n == 2) exit } n' CHANGELOG.md | sed 's/^- //' | words)
grep -qF -- "$changed" "$scratch/changelog" || fail "the packages' changelog lacks: $changed"
lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$scratch"/packages/*.changes > "$scratch/lintian" 2>&1 ||
    fail "lintian: $(cat "$scratch/lintian")"
! grep -q '^[EW]: ' "$scratch/lintian" || fail "lintian: $(cat "$scratch/lintian")"

cp "$build/programs/vector_add" "$scratch"
cat > "$scratch/inside" << 'INSIDE'
set -u
scratch=$1 tree=$2 name=test-$$
fail() { echo "FAILED: $*"; exit 1; }
mount -t tmpfs none "$tree"  # nothing of this tree is used
cd /
packages=$(ls "$scratch"/packages/*.deb)  # without triggers: others', and slow (all pages of the manual)
command -v dkms > /dev/null || packages=$(grep -v dkms <<< "$packages")  # it depends on it
dpkg --no-triggers -i $packages > "$scratch/dpkg" 2>&1 || fail "dpkg -i: $(cat "$scratch/dpkg")"
if command -v dkms > /dev/null; then
    for headers in /lib/modules/6.1.*/build; do
        [ -e "$headers" ] || continue
        kernel=${headers#/lib/modules/}
        dkms status | grep -q "^barcuda/.*, ${kernel%/build}, .*installed" || fail "dkms: $(dkms status; cat "$scratch/dpkg")"
    done
fi
id barcuda > /dev/null && getent group barcuda > /dev/null || fail "the user barcuda was not made"
[ "$(stat -c %U:%a /run/barcuda)" = root:755 ] || fail "/run/barcuda was not made"
[ "$(command -v barcuda barcuda-bridge | xargs)" = "/usr/bin/barcuda /usr/bin/barcuda-bridge" ] || fail "the commands"
barcuda doctor | grep -q '^  ok  *links: /usr/lib/barcuda/barcuda/' || fail "doctor: $(barcuda doctor)"
! ldconfig -p | grep -i barcuda || fail "ldconfig has heard of a library that is for those only who are told of it"
ldconfig && ! ldconfig -p | grep -i barcuda || fail "ldconfig has found a library that is for those only who are told of it"

# What the unit says, so far as it can be had without systemd: its environment, user, group and umask.
unit=/usr/lib/systemd/system/barcuda-bridge@.service
systemd-analyze verify --man=no "barcuda-bridge@$name.service" > "$scratch/verify" 2>&1 && ! grep barcuda "$scratch/verify" ||
    fail "systemd-analyze: $(cat "$scratch/verify")"
said() { sed -n "s/^$1=//p" $unit | sed "s/%i/$name/g; s,%C,/var/cache,g"; }
region=/dev/shm/barcuda-$name
trap 'rm -f $region' EXIT
install -d -o "$(said User)" -g "$(said Group)" -m "$(said RuntimeDirectoryMode)" "/run/$(said RuntimeDirectory)"
barcuda-bridge --print-config > "/etc/barcuda/$name.conf"
sed -i 's/^#device = .*/device = "soft"/; s/^#size = .*/size = 256M/' "/etc/barcuda/$name.conf"
as_unit() { # becomes that user; in a subshell
    local user=(setpriv --reuid="$(said User)" --regid="$(said Group)" --init-groups --bounding-set=-all --no-new-privs)
    umask "$(said UMask)"
    exec env -i PATH=/usr/bin:/bin $(said Environment) "${user[@]}" "$@"
}
# As "!" has systemd start it: root with these two capabilities. It becomes the unit's user itself.
begins() {
    umask "$(said UMask)"
    exec env -i PATH=/usr/bin:/bin $(said Environment) setpriv --bounding-set=-all,+setuid,+setgid --no-new-privs "$@"
}
start=$(said ExecStart)
mkfifo -m 666 "$scratch/ready"
begins "${start#!}" --ready-fd 9 9<> "$scratch/ready" 2> "$scratch/log" &
bridge=$!
read -r _ < "$scratch/ready" || fail "the bridge: $(cat "$scratch/log")"
of() { stat -c %U:%G:%a "$1"; }
[ "$(of "$region")" = barcuda:kvm:660 ] || fail "the region is $(of "$region"): QEMU's user cannot have it"
[ "$(of "/run/barcuda/$name/doorbell")" = barcuda:kvm:660 ] || fail "the doorbell is $(of "/run/barcuda/$name/doorbell")"

chmod 755 "$scratch" && chmod 755 "$scratch/vector_add"
(as_unit env LD_PRELOAD=/usr/lib/barcuda/libbarcuda.so LD_LIBRARY_PATH=/usr/lib/barcuda/barcuda \
    "$scratch/vector_add") > "$scratch/out" 2>&1
grep -q '^PASSED' "$scratch/out" || fail "vector_add: $(cat "$scratch/out" "$scratch/log")"
grep -q admitted "$scratch/log" || fail "the bridge has not seen it: $(cat "$scratch/log")"
kill "$bridge" && wait "$bridge" || fail "the bridge ended with status $?"
barcuda run --device soft --region-size 256M -- "$scratch/vector_add" > "$scratch/out" 2>&1
grep -q '^PASSED' "$scratch/out" || fail "barcuda run: $(cat "$scratch/out")"

dpkg --no-triggers --purge $(dpkg-query -W -f '${Package}\n' 'barcuda-*') > "$scratch/dpkg" 2>&1 || fail "dpkg --purge: $(cat "$scratch/dpkg")"
[ ! -e "$region" ] || fail "the region is left"
[ ! -e /run/barcuda ] || fail "/run/barcuda is left"
INSIDE

# /run is the copy's own; the kernel's folders, and /dev/shm with what this test has made, are this machine's.
unshare --mount bash -c '
    set -e
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
    for folder in proc sys dev; do mount --rbind "/$folder" "$1/root/$folder"; done
    mount -t tmpfs none "$1/root/run" && mount -t tmpfs none "$1/root/tmp"
    exec chroot "$1/root" bash "$1/inside" "$1" "$2"' - "$scratch" "$PWD" || fail "the packages, installed"
# What is in the overlay has been written, and is there still; the rest is dpkg's book-keeping.
left=$(cd "$scratch/upper" && find . -iname '*barcuda*' ! -type c ! -path './var/lib/dpkg/info/*.list')
[ -z "$left" ] || fail "purged, these are left: $left"
echo passed
