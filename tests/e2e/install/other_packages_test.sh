#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The packages of distributions with rpm and of Arch Linux are Debian's: each file that `make install` places is in one of them, and
# nothing else but pages and licences; unpacked, they run a program. None claims to be a library that others look for.
. "$(dirname "$0")/../lib.sh"
need help2man
case $build in *address* | *thread*) echo "skipped: packages are not made of a build under a sanitizer"; exit 77 ;; esac
built=$(realpath "$build")
make -s install B="$build" DESTDIR="$scratch/all" PREFIX=/usr LIBDIR=/usr/lib > "$scratch/make" 2>&1 || fail "make install: $(cat "$scratch/make")"
(cd "$scratch/all" && find . ! -type d | sort) > "$scratch/expected"
rm -r "$scratch/all"

rpm_tools="rpmbuild:rpm rpm2cpio:rpm2cpio cpio:cpio"
rpm_packages() { # each package's files in $scratch/rpm/PACKAGE
    make -s rpm B="$build" packages_folder="$scratch/packages" RPMFLAGS="--define '_binary_payload w1.gzdio'" > "$scratch/make" 2>&1 ||
        fail "make rpm: $(cat "$scratch/make")"
    for file in "$scratch"/packages/*.rpm; do
        local name
        name=$(rpm -qp --qf '%{NAME}' "$file") && mkdir -p "$scratch/rpm/$name"
        rpm2cpio "$file" | (cd "$scratch/rpm/$name" && cpio -idm --quiet) || fail "$file cannot be unpacked"
        ! rpm -qp --provides "$file" | grep '[.]so' || fail "$name says that it provides a library"
        ! rpm -qp --requires "$file" | grep -E 'libcu(da|blas|rand)' || fail "$name wants a library that is in it"
        [ "$name" != barcuda-common ] || [ "$( (rpm -qp --requires "$file" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p'; sed -n 's/^glibc := //p' mk/settings.mk) |
            sort -V | tail -n 1)" = "$(sed -n 's/^glibc := //p' mk/settings.mk)" ] || fail "$name wants a newer glibc than guests have: $(rpm -qp --requires "$file")"
        [ "$(rpm -qp --qf '%{VERSION}' "$file")" = "$(cat VERSION)" ] || fail "$name is not of the version that VERSION names"
    done
}
arch_tools="makepkg:makepkg pacman:pacman-package-manager bsdtar:libarchive-tools fakeroot:fakeroot setpriv:util-linux"
arch_packages() { # makepkg is not for root
    local place=$scratch/arch-build version
    version=$(cat VERSION)
    mkdir -p "$place" && chmod 755 "$scratch"
    make -s "$scratch/packages/PKGBUILD" packages_folder="$scratch/packages" && cp "$scratch/packages/PKGBUILD" "$place"
    tar -cz --exclude=./.git --exclude='./build*' --transform "s,^\.,barcuda-$version," -f "$place/barcuda-$version.tar.gz" .
    local user=()
    [ "$(id -u)" != 0 ] || { user=(setpriv --reuid=nobody --clear-groups) && chown -R nobody "$place"; }
    (cd "$place" && "${user[@]}" env HOME="$place" BUILD="$built" PKGEXT=.pkg.tar makepkg -d) > "$scratch/make" 2>&1 ||
        fail "makepkg: $(cat "$scratch/make")"
    for file in "$place"/*.pkg.tar; do
        local name=${file##*/}
        name=${name%-"$version"-*} && mkdir -p "$scratch/arch/$name"
        bsdtar -xf "$file" -C "$scratch/arch/$name" --exclude '.[A-Z]*' || fail "$file cannot be unpacked"
    done
}

lacking=
for kind in rpm arch; do
    tools=${kind}_tools missing=
    for pair in ${!tools}; do command -v "${pair%:*}" > /dev/null || missing+=" ${pair#*:}"; done
    [ -z "$missing" ] || { lacking+=" $kind:$missing"; continue; }
    "${kind}_packages"
    # pages of the manual may be compressed; pages and licences have places of their own
    (cd "$scratch/$kind" && find . ! -type d | grep -vE '^./[^/]*/usr/share/(licenses|doc/barcuda-doc)/' | sed 's,^./[^/]*,.,; s,\(/man/.*\)[.]gz$,\1,' | sort) |
        diff "$scratch/expected" - || fail "the $kind packages do not have the files of make install, each once"
    cmp -s docs/install.md "$scratch/$kind/barcuda-doc/usr/share/doc/barcuda-doc/docs/install.md" || fail "the $kind packages have no pages"
    [ -d "$scratch/$kind/barcuda-host/etc/barcuda" ] || fail "the $kind packages have no folder for configuration"
    mkdir "$scratch/root" && cp -a "$scratch/$kind"/*/. "$scratch/root"
    "$scratch/root/usr/bin/barcuda" run --device soft --region-size 256M -- "$build/programs/vector_add" > "$scratch/out" 2>&1
    grep -q '^PASSED' "$scratch/out" || fail "the $kind packages, unpacked: $(cat "$scratch/out")"
    rm -r "$scratch/root"
    echo "$kind: $(ls "$scratch/$kind" | xargs)"
done
[ -z "$lacking" ] || { echo "skipped: not installed for$lacking"; exit 77; }
echo passed
