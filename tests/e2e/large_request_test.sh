#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that asks for nearly all of the region, while the bridge has rested and a worker waits for the next client with memory in
# reserve, gets an answer: memory where there is enough without that reserve, else none at once. The bridge does not go on to end that
# worker and to start another one.
. "$(dirname "$0")/lib.sh"
started() { grep -c "a worker has started" "$scratch/log"; }
asks() { # asks MIB ANSWERS: of a bridge of 1G, of which the program and the waiting worker have 64 MiB each
    level=debug serve --no-vm
    rm -f "$scratch/in" && mkfifo "$scratch/in"
    "${guest[@]}" "$build/e2e/bounds" large "$1" < "$scratch/in" > "$scratch/out" 2>&1 & program=$!
    exec 7> "$scratch/in"
    await running "$scratch/out"
    for _ in $(seq 3000); do [ "$(started)" -ge 2 ] && break; sleep 0.02; done
    local before; before=$(started)
    [ "$before" = 2 ] || fail "$before workers for one program and the one to come"
    exec 7>&-
    for _ in $(seq 1500); do kill -0 $program 2> /dev/null || break; sleep 0.02; done
    kill -9 $program 2> /dev/null && fail "$1 MiB: no answer"
    wait $program
    grep -qxE "answer ($2)" "$scratch/out" || fail "$1 MiB: $(cat "$scratch/out")"
    [ "$(started)" -le $((before + 1)) ] || fail "$1 MiB: $(($(started) - before)) workers were started for one request"
    kill "$bridge"; wait "$bridge"; bridge=
    echo "$1 MiB: $(grep answer "$scratch/out")"
}
asks 960 2          # more than there is without the reserve
asks 896 '0|2'      # as much as there is without it; a small /dev/shm has less
asks 1048576 2
echo passed
