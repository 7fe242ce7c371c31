#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda exec`: a program in a guest, by its own name and with no variable set by hand; its status is the program's, and what is
# wrong with starting it is told as by other commands that start programs.
. "$(dirname "$0")/../lib.sh"
barcuda=$build/bin/barcuda
serve
export BARCUDA_REGION=$scratch/region  # there is no device of a VM here
$barcuda exec "$build/programs/vector_add" > "$scratch/out" 2>&1 || fail "vector_add: $(cat "$scratch/out")"
grep -q '^PASSED' "$scratch/out" || fail "vector_add: $(cat "$scratch/out")"
await 'channel 0: client admitted' "$scratch/log"
PATH=$PATH:$build/programs $barcuda exec -- vector_add > "$scratch/out" 2>&1 && grep -q '^PASSED' "$scratch/out" || fail "by its name: $(cat "$scratch/out")"
status() { # status WANTED ARGUMENTS...
    local wanted=$1; shift
    $barcuda exec "$@" > "$scratch/out" 2>&1
    local got=$?
    [ $got = "$wanted" ] || fail "$*: status $got: $(cat "$scratch/out")"
}
status 7 -- sh -c 'exit 7'
status 143 -- sh -c 'kill $$'
status 127 -- no-such-program
grep -q 'barcuda exec: cannot run no-such-program: No such file' "$scratch/out" || fail "not said: $(cat "$scratch/out")"
status 126 -- /etc/passwd
# A program's own options are not the command's, and what was in front stays there, behind ours.
LD_LIBRARY_PATH=/nowhere $barcuda exec sh -c 'echo "$LD_LIBRARY_PATH" "$1"' sh --help > "$scratch/out"
grep -q '/barcuda:/nowhere --help$' "$scratch/out" || fail "options and paths: $(cat "$scratch/out")"
echo passed
