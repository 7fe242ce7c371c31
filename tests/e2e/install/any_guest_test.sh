#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest's packages work with the oldest and the newest glibc that Debian has, in a root that holds that glibc and nothing else:
# commands, and programs with the shared and with the static runtime, built for old systems as the packages are.
#
#   ROOTS="FOLDER ..."   in these roots instead (of debootstrap, or exported from containers of other distributions)
#   RELEASES="NAME ..."  in those of these releases; default: bullseye trixie
#   MIRROR=URL           Debian's archive; default: http://deb.debian.org/debian
. "$(dirname "$0")/../lib.sh"
for tool in help2man apt-get dpkg-deb unshare; do need $tool; done
case $build in *address* | *thread*) echo "skipped: what runs under a sanitizer is for this machine"; exit 77 ;; esac
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# The libc of a release, which signed lists vouch for, in FOLDER; nothing of this machine's apt is used or changed.
fetch() { # fetch RELEASE FOLDER
    local of=$scratch/apt-$1
    mkdir -p "$of/lists/partial" "$of/cache/archives/partial" "$2"
    touch "$of/status"
    echo "deb [signed-by=$keys] ${MIRROR:-http://deb.debian.org/debian} $1 main" > "$of/sources"
    local options=(-q -o Dir::Etc::SourceList="$of/sources" -o Dir::Etc::SourceParts=- -o Dir::State="$of" -o Dir::State::Lists="$of/lists"
        -o Dir::State::status="$of/status" -o Dir::Cache="$of/cache" -o APT::Architecture=amd64 -o APT::Sandbox::User= -o Acquire::Languages=none
        -o Acquire::http::Timeout=20 -o Acquire::Retries=0 -o Acquire::Check-Valid-Until=false -o APT::Update::Error-Mode=any)
    apt-get "${options[@]}" update && (cd "$of" && apt-get "${options[@]}" download libc6) || return
    for folder in lib lib64; do mkdir -p "$2/usr/$folder" && ln -sfn "usr/$folder" "$2/$folder"; done
    dpkg-deb -x "$of"/libc6_*.deb "$2"
}

roots=${ROOTS:-}
if [ -z "$roots" ]; then
    for release in ${RELEASES:-bullseye trixie}; do
        fetch $release "$scratch/$release" > "$scratch/fetched" 2>&1 ||
            { echo "skipped: libc6 of $release cannot be had: $(tail -n 1 "$scratch/fetched")"; exit 77; }
        roots+=" $scratch/$release"
    done
fi

carried "$scratch/guest"
mkdir "$scratch/guest/programs"
cp "$build"/any-glibc/* "$scratch/guest/programs"
# "${inside[@]}" ROOT COMMAND: over a root there lie the packages' files, and it has this machine's devices and processes.
inside=(env -i BARCUDA_REGION="$scratch/region" PATH=/usr/bin:/bin unshare --mount $([ "$(id -u)" = 0 ] || echo --map-root-user) /bin/bash -c '
    mount -t overlay overlay -o "lowerdir=$0/guest:$1" "$0/merged" || exit 77
    for folder in dev proc; do mount --rbind "/$folder" "$0/merged/$folder" || exit 77; done
    cd / && exec /usr/sbin/chroot "$0/merged" "${@:2}"' "$scratch")
mkdir "$scratch/merged" "$scratch/guest/dev" "$scratch/guest/proc"
size=256M serve
for root in $roots; do
    "${inside[@]}" "$root" /usr/bin/barcuda --version > "$scratch/out" 2>&1
    [ $? != 77 ] || { echo "skipped: no overlay can be mounted: $(cat "$scratch/out")"; exit 77; }
    [ "$(cut -d , -f 1 "$scratch/out")" = "$(cat VERSION)" ] || fail "$root: barcuda --version: $(cat "$scratch/out")"
    "${inside[@]}" "$root" /usr/bin/barcuda doctor > "$scratch/out" 2>&1 || fail "$root: barcuda doctor: $(cat "$scratch/out")"
    for program in "$scratch"/guest/programs/*; do
        "${inside[@]}" "$root" /usr/bin/barcuda exec -- "/programs/${program##*/}" > "$scratch/out" 2>&1
        grep -q '^PASSED' "$scratch/out" || fail "$root: ${program##*/}: $(cat "$scratch/out")"
    done
    libc=$(find -L "$root/lib" "$root/lib64" -maxdepth 2 -name libc.so.6 2> /dev/null | head -n 1)
    echo "$(basename "$root"): $(grep -a -o 'GNU C Library.*version [0-9.]*' "$libc")"
done
echo passed
