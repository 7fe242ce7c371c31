#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random programs of streams, events, graphs, host functions, memory, threads and forks, each thing in its turn; two at
# once, with a heap that is always on, and in a full region. Nothing may stand still: a hang is a failure.
. "$(dirname "$0")/../lib.sh"
model() { # model WHAT ARGUMENTS...: in a region of its own
    local what=$1 out
    out=$(mktemp "$scratch/out-XXXXXX"); shift
    timeout 100 $run "$@" > "$out" 2>&1 || { [ $? = 124 ] && echo 'it stood still'; grep -v '^said' "$out"; fail "$what"; }
    local said
    said=$(grep -c '^said$' "$out")
    grep -q " $said lines said" "$out" || { tail -2 "$out"; fail "$what: $said lines came out"; }
    echo "$what: $(grep '^seed' "$out")"
}
seed=${API_MODEL_SEED:-25360}  # $RANDOM is another one each time
model 'one thread' -- "$build/e2e/api_model" steps=3000 seed=$seed
model 'eight threads' -- "$build/e2e/api_model" steps=700 seed=$seed threads=8
model 'a heap that is always on' -- env BARCUDA_HEAP=always BARCUDA_THRESHOLD=0 "$build/e2e/api_model" steps=800 seed=$seed threads=3 &
first=$!
model 'a full region' --region-size 128M -- "$build/e2e/api_model" steps=600 seed=$seed threads=4 || exit 1
wait $first
