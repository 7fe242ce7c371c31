#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client that is killed gives back its channel, its worker and its memory; the next one works.
. "$(dirname "$0")/lib.sh"
serve
start victim "$build/e2e/endless"
kill -9 $!; wait $! 2> /dev/null
await 'channel 0: reclaimed, with [1-9]' "$scratch/log"
grep -q 'at most [0-9.]*T of device memory' "$scratch/log" && fail "what it asked for and did not get was counted: $(grep reclaimed "$scratch/log")"
client "$build/programs/vector_add" | grep -q PASSED || fail "the next client"
await 'channel 0: reclaimed.*' "$scratch/log"
grep -q 'channel 1' "$scratch/log" && fail "the channel was not used again"
echo passed
