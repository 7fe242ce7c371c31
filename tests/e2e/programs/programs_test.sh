#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every program of tests/programs passes with no VM; one that has nothing to show on this device says so and ends with 77.
. "$(dirname "$0")/../lib.sh"
for source in tests/programs/*.cu; do
    program=$build/programs/$(basename "$source" .cu)
    $run -- "$program" > "$scratch/out" 2>&1
    status=$?
    [ $status = 77 ] && { echo "$(basename "$program"): $(grep -m 1 skipped "$scratch/out")"; continue; }
    [ $status = 0 ] || { cat "$scratch/out"; fail "$program under $run"; }
    grep -q PASSED "$scratch/out" || fail "$program did not say PASSED"
    echo "$(basename "$program"): passed"
done
BARCUDA_MANAGED=host $run -- "$build/programs/managed" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || { cat "$scratch/out"; fail "managed memory in the region"; }
echo "managed, in the region: passed"
# Streams that share queues, as a GPU's do: what waits for a function of the program's holds others up, but not the function.
for queues in 1 8; do
    BARCUDA_SOFT_QUEUES=$queues timeout 120 $run -- "$build/programs/managed_functions" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" ||
        { cat "$scratch/out"; fail "functions and managed memory with two homes, streams in $queues queues"; }
    echo "managed_functions, with two homes, $queues queues: passed"
done
