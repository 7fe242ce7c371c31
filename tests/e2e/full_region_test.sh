#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that takes all the region before its first kernel still runs: code, copies, streams and events find room.
. "$(dirname "$0")/lib.sh"
crowded() { # crowded WHAT ARGUMENTS...
    local what=$1; shift
    timeout 120 $run "$@" "$build/programs/crowded" > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || { cat "$scratch/out"; fail "$what"; }
    grep -q 'the region is full' "$scratch/out" || fail "$what: the region was never full, so nothing was shown"
    echo "$what: passed"
}
timeout 60 $run --region-size 128M -- "$build/programs/managed_variables" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail 'managed variables'; }
crowded 'malloc has it all' --region-size 128M --
crowded 'a heap that is always on' --region-size 256M -- env BARCUDA_HEAP=always BARCUDA_THRESHOLD=0
