#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that replaces its program (exec) leaves nothing of the old one behind: no channel, no worker, no extent; more often than there
# are channels, and also where the new program never uses CUDA.
. "$(dirname "$0")/../lib.sh"
size=512M serve --no-vm
timeout 300 "${guest[@]}" "$build/e2e/exec_self" 80 > "$scratch/out" 2>&1 && grep -q PASSED "$scratch/out" || fail "80 rounds: $(cat "$scratch/out")"
echo "80 programs in one process: passed"

# As a program that never ends and uses no CUDA.
reclaimed() { # reclaimed NUMBER: of clients, awaited
    for _ in $(seq 3000); do [ "$(grep -c reclaimed "$scratch/log")" = "$1" ] && return; sleep 0.02; done
    fail "of $1 clients $(grep -c reclaimed "$scratch/log") have been reclaimed"
}
reclaimed 81
mkfifo "$scratch/in"
exec 5<> "$scratch/in"
"${guest[@]}" "$build/e2e/exec_self" 1 cat < "$scratch/in" > "$scratch/cat.out" 2>&1 &
process=$!
reclaimed 83
[ "$(cat "$scratch/cat.out")" = PASSED ] && kill -0 $process || fail "the process has ended: $(cat "$scratch/cat.out")"
kill $process
echo "a program without CUDA after it: passed"
