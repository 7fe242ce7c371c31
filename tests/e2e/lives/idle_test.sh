#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A client that sleeps costs the host nothing: bridge and worker sleep as well; a call wakes the worker, and the worker wakes
# a thread that sleeps until the GPU is done.
. "$(dirname "$0")/../lib.sh"
serve --no-vm
mkfifo "$scratch/line"
exec 8<> "$scratch/line" # both ends, so that no open waits
client=
trap '[ -n "$client" ] && kill -9 "$client" 2> /dev/null; finish' EXIT
word() { od -A n -t u4 -j $((0x100000 + $1)) -N 4 "$scratch/region" | tr -d ' '; } # of channel 0
used() { cut -d " " -f 1 "/proc/$1/schedstat"; } # nanoseconds on a processor
switches() { sed -n 's/^voluntary_ctxt_switches:\t//p' "/proc/$1/status"; }
asleep() { # asleep PID LOOKS: in five seconds PID comes up so many times at most, and uses no more than 0.2 % of a processor
    local time looks
    time=$(used "$1") looks=$(switches "$1")
    sleep 5
    time=$(($(used "$1") - time)) looks=$(($(switches "$1") - looks))
    echo "$(tr '\0' ' ' < "/proc/$1/cmdline"): $((time / 1000)) us, came up $looks times"
    [ $time -le 10000000 ] && [ $looks -le "$2" ] || fail "that is not sleep"
}
pass() { # pass NAME: the program goes on, and reaches its end
    echo >&8
    await PASSED "$scratch/$1.out"
}
end() { echo >&8; wait "$client" || fail "$(cat "$scratch/$1".*)"; }

start caller "$build/e2e/idle" "$scratch/line"; client=$!
worker=$(sed -n 's/.*channel 0: client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")
sleep 3 # the bridge looks often for a second after it heard something; and it starts the next warm worker
asleep "$worker" 25 # it wakes twice a second to see that nothing was missed
asleep "$bridge" 40
kicks=$(word 0x8004)
pass caller
[ "$(word 0x8004)" -gt "$kicks" ] || fail "no kick woke the worker"
end caller

await 'channel 0: reclaimed' "$scratch/log"
start waiter "$build/e2e/idle" "$scratch/line" gpu; client=$!
sleep 1
wakes=$(word 0x8044)
pass waiter
[ "$(word 0x8044)" -gt "$wakes" ] || fail "nobody woke the thread that slept in cudaDeviceSynchronize"
end waiter
echo passed
