#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No file of a guest's packages asks for a symbol that came after the glibc that the Makefile names, or for a library that is neither
# glibc's nor in the package.
. "$(dirname "$0")/../lib.sh"
need help2man
case $build in *address* | *thread*) echo "skipped: what runs under a sanitizer is for this machine"; exit 77 ;; esac
oldest=$(sed -n 's/^glibc := //p' mk/settings.mk)
[ -n "$oldest" ] || fail "the Makefile names no glibc"
carried "$scratch/guest"
files=$(find "$scratch/guest" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' - {} \;)
[ "$(wc -l <<< "$files")" -ge 3 ] || fail "these are all programs and libraries of the packages: $files"
ours=$(for file in $files; do objdump -p "$file" | awk '$1 == "SONAME" { print $2 }'; done)
theirs="libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2"
for file in $files; do
    newest=$(objdump -T "$file" | sed -n 's/.*\*UND\*.*(\?GLIBC_\([0-9.]*\))\? *\(.*\)/\1 \2/p' | sort -V | tail -n 1)
    [ "$(printf '%s\n' "${newest%% *}" "$oldest" | sort -V | tail -n 1)" = "$oldest" ] || fail "${file#"$scratch/guest"} needs glibc $newest"
    for library in $(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }'); do
        [[ " $(echo $theirs $ours) " = *" $library "* ]] || fail "${file#"$scratch/guest"} needs $library, which a guest may not have"
    done
    echo "${file#"$scratch/guest"}: ${newest:+glibc }${newest%% *}"
done
echo passed
