#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A region that is replaced by a copy, taken away, or not to be read, and processes that may have little memory: each client ends with a line
# that says what is wrong, and the bridge lives and serves those who come to its own file. (Full, and cut short: full_memory_test.sh; none at all:
# foreign_region_test.sh.)
. "$(dirname "$0")/lib.sh"
ended() { # ended WHAT: the last client said why it has no GPU, and nothing crashed or hung
    [ $status -lt 124 ] && [ $status -ne 0 ] || fail "$1: a client ended with $status: $(cat "$scratch/out")"
    grep -q 'barcuda: ' "$scratch/out" || fail "$1: no reason: $(cat "$scratch/out")"
    kill -0 "$bridge" || fail "$1: the bridge has died"
}
try() { timeout 60 "${guest[@]}" "$@" > "$scratch/out" 2>&1; status=$?; }
serve
cp --sparse=always "$scratch/region" "$scratch/copy"
mv "$scratch/region" "$scratch/own" && mv "$scratch/copy" "$scratch/region"
try "$build/programs/vector_add"; ended 'replaced by a copy'
await "the region's file was replaced by another one" "$scratch/log"
rm "$scratch/region"
try "$build/programs/vector_add"; ended 'taken away'
await "the region's file was removed" "$scratch/log"
mv "$scratch/own" "$scratch/region"
try "$build/programs/vector_add"; grep -q PASSED "$scratch/out" || fail "its own file again: $(cat "$scratch/out")"
await "the region's file is there again" "$scratch/log"
echo 'replaced, taken away: passed'

# As nobody, who may reach neither the folder nor the file.
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    chmod 711 "$scratch" && chmod 600 "$scratch/region"
    timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "${guest[@]}" "$PWD/$build/programs/vector_add" > "$scratch/out" 2>&1; status=$?
    if [ $status = 126 ] || [ $status = 127 ]; then echo 'not to be read: nobody cannot start programs here'
    else ended 'not to be read' && grep -qi 'permission denied' "$scratch/out" || fail "not to be read: $(cat "$scratch/out")"; fi
fi

# Little memory: a client is served or told, and the others do not notice.
for MiB in 2000 1100 600 300; do
    (ulimit -v $((MiB << 10)); timeout 60 "${guest[@]}" "$build/programs/vector_add") > "$scratch/out" 2>&1; status=$?
    if [ $status = 0 ]; then grep -q PASSED "$scratch/out"; else [ $status -lt 124 ] && [ -s "$scratch/out" ]; fi || fail "with $MiB MiB of addresses: $status, $(cat "$scratch/out")"
    kill -0 "$bridge" || fail "with $MiB MiB of addresses: the bridge has died"
done
try "$build/programs/vector_add"; grep -q PASSED "$scratch/out" || fail "the next client: $(cat "$scratch/out")"
kill "$bridge" && wait "$bridge"; bridge=
(ulimit -v 300000; exec timeout 60 "$build/bin/barcuda-bridge" --region "$scratch/region" --device "$device") > "$scratch/out" 2>&1; status=$?
[ $status = 1 ] && [ -s "$scratch/out" ] || fail "a bridge with little memory ended with $status: $(cat "$scratch/out")"
echo passed
