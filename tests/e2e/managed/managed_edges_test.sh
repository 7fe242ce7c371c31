#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Managed memory where the device has too little memory for it, where the process has too few mappings, where it stays in the region
# because the user says so; after a reset, at a program's end, and when the GPU is lost.
. "$(dirname "$0")/../lib.sh"
edges=$build/e2e/managed_edges
measure_own
serve --client-device-memory $((64 + own))M
client env BARCUDA_STATS="$scratch/stats" "$edges" full > "$scratch/out" 2>&1 && grep -q fits "$scratch/out" || fail "a full device: $(cat "$scratch/out")"
grep -q 'managed, to device' "$scratch/stats" || fail "nothing was on the device: $(cat "$scratch/stats")"
echo 'a full device: passed'
client env BARCUDA_STATS="$scratch/host" BARCUDA_MANAGED=host "$edges" full > "$scratch/out" 2>&1 && grep -q fits "$scratch/out" || fail "all in the region: $(cat "$scratch/out")"
grep -q 'managed, to' "$scratch/host" && fail "some was on the device: $(cat "$scratch/host")"
echo 'in the region: passed'
client env BARCUDA_MANAGED=elsewhere "$edges" full > "$scratch/out" 2>&1; [ $? = 78 ] && grep -q 'BARCUDA_MANAGED=elsewhere' "$scratch/out" || fail "a setting that there is not: $(cat "$scratch/out")"
client env BARCUDA_LOG=debug "$edges" growing > "$scratch/out" 2>&1 && grep -q grown "$scratch/out" || fail "larger and larger: $(cat "$scratch/out")"
grep -q 'stays in the region' "$scratch/out" && fail "larger and larger: some was not on the device: $(cat "$scratch/out")"
echo 'larger and larger: passed'
client "$edges" reset > "$scratch/out" 2>&1 && grep -q reset "$scratch/out" || fail "a reset: $(cat "$scratch/out")"
client "$edges" end > "$scratch/out" 2>&1 && grep -q 'late: 5' "$scratch/out" || fail "the end: $(cat "$scratch/out")"
echo 'a reset, and the end: passed'
client env BARCUDA_MANAGED=host "$build/e2e/managed_waits" > "$scratch/out" 2>&1 || fail "a kernel that waits for the CPU, in the region: $(cat "$scratch/out")"
"${guest[@]}" timeout -s KILL 60 "$build/e2e/managed_waits" > "$scratch/out" 2> "$scratch/err" & waiting=$!
for _ in $(seq 500); do grep -q 'BARCUDA_MANAGED=host' "$scratch/err" && break; sleep 0.1; done
kill $waiting 2> /dev/null  # which passes it on
wait $waiting 2> /dev/null
grep -q 'BARCUDA_MANAGED=host' "$scratch/err" || fail "a kernel that waits for the CPU: nothing was said: $(cat "$scratch/out" "$scratch/err")"
echo 'a kernel that waits for the CPU: passed'
start lost "$edges" lost; lost=$!
kill -9 "$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log" | tail -n 1)"
wait $lost || fail "a lost GPU: $(cat "$scratch/lost.out" "$scratch/lost.err")"
grep -q 'went on' "$scratch/lost.out" || fail "a lost GPU: $(cat "$scratch/lost.out")"
[ "$(grep -c 'was on the GPU, which is lost' "$scratch/lost.err")" = 1 ] || fail "no reason was given, or twice: $(cat "$scratch/lost.err")"
echo 'a lost GPU: passed'
kill "$bridge"; wait "$bridge" 2> /dev/null; bridge=
rm -f "$scratch/region"
size=2G serve
client "$edges" scattered > "$scratch/out" 2>&1 && grep -q scattered "$scratch/out" || fail "few mappings: $(cat "$scratch/out")"
echo 'few mappings: passed'
