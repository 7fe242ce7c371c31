#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Signals and cancellation of a program that has managed memory do what they do without it; and a program without CUDA has its masks.
. "$(dirname "$0")/../lib.sh"
need python3
serve
# NAME, what it says and its exit status; 139 is an end by SIGSEGV.
check() {
    timeout -s KILL 120 "${guest[@]}" "$build/e2e/managed_signals" "$1" > "$scratch/out" 2> "$scratch/err"
    local status=$?
    [ $status = "$3" ] && [ "$(cat "$scratch/out")" = "$2" ] ||
        fail "$1: status $status, not $3: $(head -c 2000 "$scratch/out" "$scratch/err")"
    echo "$1: passed"
}
check nested entered 139
check nested_nodefer three 0
check left 'left three times' 0
check blocked touched 139
check unblocked handled 0
check full_masks touched 0
check contexts touched 0
check left_in_touch left 0
check cancelled cancelled 0
check set_actions set 0

# What has no handler is not held up by a touch that waits.
start ended timeout -s KILL 60 "$build/e2e/managed_signals" ended; waiting=$!
kill -INT "$(pgrep -P $waiting)"
wait $waiting
status=$?
[ $status = 130 ] || fail "ended: status $status, not 130: $(cat "$scratch/ended.err")"
echo 'ended: passed'

# No code for a GPU, no CUDA.
client python3 - > "$scratch/out" 2>&1 <<'EOP' || fail "sigwait with no CUDA: $(cat "$scratch/out")"
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSEGV})
os.kill(os.getpid(), signal.SIGSEGV)
assert signal.sigwait({signal.SIGSEGV}) == signal.SIGSEGV
assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == {signal.SIGSEGV}
EOP
echo 'a program without CUDA: passed'
