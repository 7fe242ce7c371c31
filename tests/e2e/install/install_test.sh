#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make install` honours DESTDIR, PREFIX and LIBDIR, and what it installs works from wherever it lies; `make uninstall` takes all of it
# away; `make install-strip` leaves symbols behind; `make dist` is the tree, of the version that VERSION names, and with Debian's changelog.
. "$(dirname "$0")/../lib.sh"
need help2man
make() { command make -s B="$build" "$@" > "$scratch/make" 2>&1; }
place=(DESTDIR="$scratch/root" PREFIX=/opt/b LIBDIR=/opt/b/lib64)
make install-strip "${place[@]}" || fail "make install-strip: $(cat "$scratch/make")"
stripped=$(find "$scratch/root" -type f -exec readelf -S {} + 2> /dev/null | grep -c '[.]symtab')
[ "$stripped" = 0 ] || fail "$stripped of what is installed are not stripped"
[ "$(ls "$scratch/root" "$scratch/root/opt" | xargs)" = "$scratch/root: opt $scratch/root/opt: b" ] || fail "files outside of PREFIX: $(ls -R "$scratch/root")"
[ -e "$scratch/root/opt/b/lib64/barcuda/libbarcuda.so" ] || fail "LIBDIR"
! grep -r '@[A-Z]*@' "$scratch/root/opt/b/lib/systemd" "$scratch"/root/opt/b/src || fail "names that were not filled in"
grep -q '^ExecStart=!/opt/b/bin/barcuda-bridge$' "$scratch"/root/opt/b/lib/systemd/system/barcuda-bridge@.service || fail "the unit's program"
mv "$scratch/root/opt/b" "$scratch/moved"
"$scratch/moved/bin/barcuda" run --device "$device" -- "$build/programs/vector_add" > "$scratch/out" 2>&1
grep -q '^PASSED' "$scratch/out" || fail "moved, it does not run: $(cat "$scratch/out")"
mv "$scratch/moved" "$scratch/root/opt/b"
echo mine > "$scratch/root/opt/b/lib/systemd/system/mine.service"
make uninstall "${place[@]}" || fail "make uninstall: $(cat "$scratch/make")"
[ "$(cd "$scratch/root" && find . ! -type d)" = ./opt/b/lib/systemd/system/mine.service ] || fail "left: $(cd "$scratch/root" && find . ! -type d)"
[ -z "$(find "$scratch/root" -name '*barcuda*')" ] || fail "folders are left: $(find "$scratch/root" -name '*barcuda*')"
! make install DESTDIR="$scratch/root" PREFIX=/opt/b LIBDIR=/opt/libraries || fail "a LIBDIR where no program would look is refused"
grep -q 'LIBDIR=/opt/libraries' "$scratch/make" || fail "and the message names it: $(cat "$scratch/make")"

mkdir "$scratch/include" && echo '#define CUDA_VERSION 12040' > "$scratch/include/cuda.h"
! make headers CUDA_HOME="$scratch" || fail "headers of an older CUDA are refused"
grep -q "the headers of CUDA 12.4, and no cuda.h of CUDA 13.0 or newer" "$scratch/make" || fail "and the message says so: $(cat "$scratch/make")"
make headers || fail "this machine's are not: $(cat "$scratch/make")"

version=$(cat VERSION)
if git rev-parse HEAD > /dev/null 2>&1; then
    make dist packages_folder="$scratch" || fail "make dist: $(cat "$scratch/make")"
    tar -xf "$scratch/barcuda-$version.tar.gz" -C "$scratch" || fail "the tarball"
    grep -q "^barcuda ($version) " "$scratch/barcuda-$version/debian/changelog" || fail "debian/changelog in the tarball"
    (cd "$scratch/barcuda-$version" && find . -type f ! -path ./debian/changelog ! -path ./barcuda.spec ! -path ./PKGBUILD | sort) | cmp - <(git ls-tree -r --name-only HEAD | sed 's,^,./,' | sort) ||
        fail "the tarball is not the tree"
fi
echo passed
