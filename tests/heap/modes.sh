#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What BARCUDA_HEAP and BARCUDA_THRESHOLD do to a program that never touches CUDA.
#
#   tests/heap/modes.sh LIBRARY        exit: 0 all as specified; 1 not
set -u
library=$(realpath "$1") || exit 2
failed=0

# In this program's address space, from outside the library: what is mapped at the region's addresses, is mimalloc loaded,
# how many threads are there?
look='big=$(head -c 300000 /dev/zero | tr "\0" x)
maps=$(cat /proc/$$/maps)
case $maps in *" 00000000 "*"libmimalloc"*) m=mimalloc ;; *) m=- ;; esac
case $maps in *2000[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]-*) r=region ;; *) r=- ;; esac
echo "$r $m $(ls /proc/$$/task | wc -l) ${#big}"'

expect() {  # NAME WANTED COMMAND...: what the command prints and its status
    name=$1 wanted=$2
    shift 2
    got=$("$@" 2>&1; echo "status $?")
    if [ "$got" = "$wanted" ]; then
        echo "ok: $name"
    else
        printf 'DIFFERENT: %s\n  wanted: %s\n  got:    %s\n' "$name" "$wanted" "$got"
        failed=1
    fi
}
ours() { env LD_PRELOAD="$library" "$@"; }

expect "by default a program's heap stays its own: nothing mapped, nothing loaded, no thread" "- - 1 300000
status 0" ours bash -c "$look"
expect "never: likewise" "- - 1 300000
status 0" ours BARCUDA_HEAP=never bash -c "$look"
expect "always: the region is mapped once a large block asks for it, mimalloc is not needed" "region - 1 300000
status 0" ours BARCUDA_HEAP=always bash -c "$look"
expect "always, threshold 0: mimalloc serves the small blocks" "region mimalloc 1 300000
status 0" ours BARCUDA_HEAP=always BARCUDA_THRESHOLD=0 bash -c "$look"
expect "always, without a region: ordinary memory, and not a word" "- - 1 300000
status 0" ours BARCUDA_HEAP=always TEST_REGION=0 BARCUDA_REGION=/nonexistent bash -c "$look"
expect "a mode that does not exist is refused by name" "barcuda: BARCUDA_HEAP=on is not auto, always or never
status 78" ours BARCUDA_HEAP=on true
expect "a threshold that is no number is refused by name" "barcuda: BARCUDA_THRESHOLD=64KB is not a number of bytes (K, M or G may follow)
status 78" ours BARCUDA_THRESHOLD=64KB true
expect "an empty threshold is refused too" "barcuda: BARCUDA_THRESHOLD= is not a number of bytes (K, M or G may follow)
status 78" ours BARCUDA_THRESHOLD= true
expect "statistics of a program that used no region: nothing to say" "status 0" ours BARCUDA_STATS=1 true
exit $failed
