#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Random copies between all kinds of memory, every byte against a model; with room, with threads, and in a full region.
. "$(dirname "$0")/../lib.sh"
model() { # model WHAT ARGUMENTS...: in a region of its own
    local what=$1; shift
    timeout 300 $run "$@" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "$what"; }
    echo "$what: $(head -1 "$scratch/out")"
}
seed=${COPY_MODEL_SEED:-14021}  # $RANDOM is another one each time
model 'one thread' -- "$build/e2e/copy_model" steps=3000 seed=$seed
model 'four threads' -- "$build/e2e/copy_model" steps=800 seed=$seed threads=4
model 'a heap that is always on' -- env BARCUDA_HEAP=always BARCUDA_THRESHOLD=0 "$build/e2e/copy_model" steps=1000 seed=$seed
model 'a full region' --region-size 128M -- "$build/e2e/copy_model" steps=500 seed=$seed max=$((64 << 20))
