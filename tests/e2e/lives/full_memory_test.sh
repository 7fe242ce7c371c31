#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The file system that holds a region fills up, and somebody takes each page that becomes free: the bridge lives, and says what it
# cannot give: clients get ordinary memory, where there is any left for their commands. A region that is cut short ends its bridge with the reason.
. "$(dirname "$0")/../lib.sh"
small=$scratch/small
mkdir "$small" && mount -t tmpfs -o size=24M tmpfs "$small" 2> /dev/null || { echo 'skipped: no file system may be mounted here'; exit 77; }
filler=
trap '{ [ -z "$filler" ] || { kill $filler; wait $filler; }; finish; umount "$small"; rm -rf "$scratch"; } 2> /dev/null' EXIT
place() { "$build/bin/barcuda-bridge" --region "$small/region" --size 1G --device "$device" --log-level info --ready-fd 9 9> "$scratch/ready" 2> "$scratch/log" & }
up() { rm -f "$scratch/ready" && mkfifo "$scratch/ready"; place; bridge=$!; read -r _ < "$scratch/ready" || fail 'the bridge did not come up'; }
up
guest=(env BARCUDA_REGION="$small/region" LD_PRELOAD="$PWD/$build/lib/libbarcuda.so" LD_LIBRARY_PATH="$PWD/$build/lib/barcuda")
client "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "with 24 MiB: $(cat "$scratch/out")"
# It ends with its cat, which would go on to fill a file that is removed.
(trap 'kill $cat; wait $cat; exit' TERM; while :; do cat /dev/zero >> "$small/filler" & cat=$!; wait $cat; done) 2> /dev/null & filler=$!
until [ "$(df --output=avail "$small" | tail -n 1)" -eq 0 ]; do sleep 0.02; done
for _ in $(seq 20); do { timeout 20 "${guest[@]}" "$build/programs/vector_add"; } > "$scratch/out" 2>&1; kill -0 "$bridge" || fail "the bridge has died"; done
kill $filler; wait $filler 2> /dev/null; filler=; rm "$small/filler"
client "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "when there is room again: $(cat "$scratch/out")"
echo 'a full file system: passed'

truncate -s 0 "$small/region"
wait "$bridge"; status=$?
[ $status = 1 ] || fail "a bridge whose region was cut short ended with $status"
grep -q 'was cut short' "$scratch/log" || fail "it gave no reason: $(cat "$scratch/log")"
bridge=
echo 'a truncated region: passed'
