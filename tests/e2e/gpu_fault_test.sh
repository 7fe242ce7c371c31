#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A kernel's illegal address is an error of its program, sticky as on hardware, and nobody else's.
. "$(dirname "$0")/lib.sh"
serve
start other "$build/e2e/endless"; other=$!
client "$build/e2e/fault" > "$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
kill -0 $other || fail "the other client ended too: $(cat "$scratch"/other.*)"
kill $other
cat "$scratch/out"
