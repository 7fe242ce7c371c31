#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With ivshmem-doorbell a guest's client that sleeps costs the host nothing: a call rings for the worker, an interrupt wakes
# a thread that sleeps until the GPU is done, and the module rings for a client that has been killed.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
command -v qemu-system-x86_64 > /dev/null || { echo "skipped: qemu-system-x86_64 is not installed (make deps)"; exit 77; }
scratch=$(mktemp -d)
vm=
finish() { [ -n "$vm" ] && kill "$vm" 2> /dev/null; wait; rm -rf "$scratch"; }
trap finish EXIT
fail() { echo "FAILED: $*"; cat "$scratch/err" "$scratch"/barcuda-vm.*/bridge 2> /dev/null; exit 1; }
await() { # await WORDS FILE...
    for _ in $(seq 1500); do
        grep -q "$1" "${@:2}" 2> /dev/null && return
        kill -0 "$vm" || fail "the guest ended early: $(cat "$scratch/out")"
        sleep 0.1
    done
    fail "'$1' was never said: $(cat "$scratch/out")"
}
used() { cut -d ' ' -f 1 "/proc/$1/schedstat"; } # nanoseconds on a processor
switches() { sed -n 's/^voluntary_ctxt_switches:\t//p' "/proc/$1/status"; }

mkfifo "$scratch/in"
exec 8<> "$scratch/in"
TMPDIR=$scratch BARCUDA_LOG=debug BARCUDA_BUILD=$build tests/vm/run --keep-log --device "${DEVICE:-soft}" --timeout 240 -- bash -c '
    interrupts() { awk "/barcuda/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; ++i) n += \$i } END { print n + 0 }" /proc/interrupts; }
    await() { until grep -q "$1" "$2"; do sleep 0.05; done; }
    mkfifo /tmp/line; exec 9<> /tmp/line
    '"$build"'/e2e/idle /tmp/line > /tmp/caller & caller=$!
    await running /tmp/caller
    echo "the caller sleeps"; read -r _
    echo >&9; await PASSED /tmp/caller; kill -9 $caller
    echo "the caller was killed"; read -r _
    '"$build"'/e2e/idle /tmp/line gpu > /tmp/waiter & waiter=$!
    await running /tmp/waiter
    sleep 3; before=$(interrupts)
    echo >&9; await PASSED /tmp/waiter
    echo "$(($(interrupts) - before)) interrupts woke the waiter"
    echo >&9; wait $waiter && echo passed' < "$scratch/in" > "$scratch/out" 2> "$scratch/err" &
vm=$!
await 'the caller sleeps' "$scratch/out"
worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch"/barcuda-vm.*/bridge)
bridge=$(sed -n 's/^PPid:\t//p' "/proc/$worker/status")
sleep 3 # the bridge looks often for a second after it heard something; and it starts the next warm worker
for process in $worker $bridge; do
    time=$(used "$process") looks=$(switches "$process")
    sleep 5
    time=$(($(used "$process") - time)) looks=$(($(switches "$process") - looks))
    echo "$(tr '\0' ' ' < "/proc/$process/cmdline"): $((time / 1000)) us in 5 s, came up $looks times"
    [ $time -le 10000000 ] && [ $looks -le 40 ] || fail "that is not sleep"
done
rings=$(grep -c 'the guest rang' "$scratch"/barcuda-vm.*/bridge)
echo >&8
await 'the caller was killed' "$scratch/out"
[ "$(grep -c 'the guest rang' "$scratch"/barcuda-vm.*/bridge)" -gt "$rings" ] || fail "nobody rang for the worker"
await 'reclaimed' "$scratch"/barcuda-vm.*/bridge
echo >&8
wait $vm || fail "the guest: $(cat "$scratch/out")"
vm=
cat "$scratch/out"
grep -q '^passed' "$scratch/out" && grep -q '^[1-9][0-9]* interrupts' "$scratch/out" || fail "no interrupt woke the waiter"
