#!/bin/bash
# Every program of tests/programs passes with no VM.
. "$(dirname "$0")/lib.sh"
for source in tests/programs/*.cu; do
    program=$build/programs/$(basename "$source" .cu)
    $run -- "$program" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "$program under $run"; }
    grep -q PASSED "$scratch/out" || fail "$program did not say PASSED"
    echo "$(basename "$program"): passed"
done
