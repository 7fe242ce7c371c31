#!/bin/bash
# A worker that dies leaves its client with an error and a line that says why, never a hang; other clients do not notice.
. "$(dirname "$0")/lib.sh"
serve
start one "$build/e2e/endless"; one=$!
start two "$build/e2e/endless"; two=$!
worker=$(sed -n 's/.*channel 0: client admitted, worker //p' "$scratch/log")
kill -9 "$worker"
wait $one; [ $? = 3 ] || fail "the client ended with $? instead of an error: $(cat "$scratch/one.out")"
grep -q 'killed by signal 9' "$scratch/one.err" || fail "no reason was given: $(cat "$scratch/one.err")"
kill -0 $two || fail "the other client ended too: $(cat "$scratch/two.out")"
kill $two; wait $two 2> /dev/null
client "$build/programs/vector_add" | grep -q PASSED || fail "the next client"
echo passed
