#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A bridge that is stopped, or killed without a word, leaves its clients with an error; a new one takes the region over.
. "$(dirname "$0")/lib.sh"
for how in TERM KILL; do
    serve
    start victim "$build/e2e/endless"; victim=$!
    kill -$how "$bridge"; wait "$bridge" 2> /dev/null; bridge=
    wait $victim; status=$?
    [ $status = 3 ] || fail "after SIG$how the client ended with $status: $(cat "$scratch"/victim.*)"
    grep -q 'the GPU is lost' "$scratch/victim.err" || fail "after SIG$how no reason was given"
done
serve
client "$build/programs/vector_add" | grep -q PASSED || fail "a client of the bridge that took over"
echo passed
