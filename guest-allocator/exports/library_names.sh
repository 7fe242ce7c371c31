#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# library_names.sh UNSUPPORTED_O PREFIX SONAME: assembly of a library that has the names of one of NVIDIA's, under its version, and
# nothing else: each is a jump to libbarcuda.so's function. libbarcuda.so itself has those names under a version that no program
# asks for, so that it stands in front of no program that finds NVIDIA's libraries: theirs and ours do not know each other's
# handles. UNSUPPORTED_O has all names.
set -eu
echo .text
for name in $(nm -g --defined-only "$1" | awk -v prefix="^$2[A-Z]" '$3 ~ prefix && (prefix ~ /Lt/ || $3 !~ /^cublasLt/) { print $3 }' | LC_ALL=C sort -u); do
    printf '.globl at_%s\n.type at_%s, @function\nat_%s: jmp barcuda_%s@PLT\n.symver at_%s, %s@@%s, remove\n' \
        "$name" "$name" "$name" "$name" "$name" "$name" "$3"
done
echo '.section .note.GNU-stack, "", @progbits'
