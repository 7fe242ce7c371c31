#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A random program on managed memory, every byte against a model: alone, with several threads, where it stays in the region, in a region
# with no room to spare, and on a device whose streams share queues.
. "$(dirname "$0")/../lib.sh"
model() { # model WHAT ARGUMENTS...: in a region of its own
    local what=$1; shift
    timeout 300 $run "$@" > "$scratch/out" 2>&1 || { cat "$scratch/out"; fail "$what"; }
    echo "$what: $(head -1 "$scratch/out")"
}
seed=${MANAGED_MODEL_SEED:-14021}
model 'one thread' -- "$build/e2e/managed_model" steps=2000 seed=$seed threads=1
model 'five threads' -- "$build/e2e/managed_model" steps=1000 seed=$seed threads=5
BARCUDA_SOFT_QUEUES=2 model 'five threads, streams that share two queues' -- "$build/e2e/managed_model" steps=300 seed=22 threads=5
model 'in the region' -- env BARCUDA_MANAGED=host "$build/e2e/managed_model" steps=1000 seed=$seed threads=2
model 'small ones' -- "$build/e2e/managed_model" steps=1000 seed=$seed threads=1 max=3000
model 'a small region' --region-size 128M -- "$build/e2e/managed_model" steps=500 seed=$seed threads=1
