#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a failed assert says reaches the program's standard error, once, and nobody else; all else that the driver says, and what
# nobody asks for, is the host's.
. "$(dirname "$0")/lib.sh"
serve
client "$build/e2e/asserts" look > "$scratch/out" 2> "$scratch/err" || fail "$(cat "$scratch/out" "$scratch/err")"
[ "$(cat "$scratch/out")" = cudaErrorAssert ] || fail "the program's output: $(cat "$scratch/out")"
[ "$(grep -c 'asserts.cu:.*block: \[0,0,0\], thread: \[40,0,0\] Assertion .*as asked.* failed' "$scratch/err")" = 1 ] ||
    fail "its standard error: $(cat "$scratch/err")"
grep -q Assertion "$scratch/log" && fail "the bridge has said it too"
if [ "$device" = soft ]; then  # a GPU's driver says nothing until it is asked
    start forgetful "$build/e2e/asserts"; forgetful=$!
    await 'Assertion .*as asked' "$scratch/log"
    kill $forgetful
    client "$build/e2e/fault" > "$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
    grep 'CUDA_ERROR_ILLEGAL_ADDRESS: kernel' "$scratch/out" && fail "what the driver says of a fault went to the client"
    await 'CUDA_ERROR_ILLEGAL_ADDRESS: kernel' "$scratch/log"
fi
echo passed
