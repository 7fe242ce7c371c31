#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A measure of the cage that is not to be had here is found out while the first worker starts, which has taken it for granted: it ends, and another
# one starts without that measure and serves. Here none may write /proc/self/oom_score_adj (of the host's /proc: so workers get no root of their own).
. "$(dirname "$0")/own_mounts.sh"
own_mounts "a /proc that is read alone" 'mount --bind /proc /proc && mount -o remount,bind,ro /proc'
device=soft
. "$(dirname "$0")/lib.sh"
serve --no-vm --warm 1 --no-cage mounts
grep -q "the workers' cage lacks 'oom' .*not to be had here" "$scratch/log" || fail "it does not say what its cage lacks: $(cat "$scratch/log")"
grep -q 'the first worker is started anew' "$scratch/log" || fail "it started after the cage had been tried: $(cat "$scratch/log")"
client "$build/programs/vector_add" | grep -q PASSED || fail "vector_add: $(cat "$scratch/log")"
! grep -q "the cage's measure" "$scratch/log" || fail "the first worker was waited for: $(cat "$scratch/log")"
kill "$bridge"; wait "$bridge"; bridge=
"$build/bin/barcuda" run --device soft --no-cage mounts -- "$build/programs/vector_add" 2> "$scratch/err" | grep -q PASSED || fail "barcuda run: $(cat "$scratch/err")"
# What must be to be had is an error, and nothing is left.
if "$build/bin/barcuda-bridge" --region "$scratch/none" --device soft --no-vm --no-cage mounts --cage oom 2> "$scratch/err"; then fail "--cage oom: it began"; fi
grep -q -- "--cage oom: not to be had here" "$scratch/err" || fail "--cage oom: $(cat "$scratch/err")"
[ ! -e "$scratch/none" ] || fail "a region was left"
echo passed
