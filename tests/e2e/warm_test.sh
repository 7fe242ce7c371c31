#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Workers wait for clients: as many as --warm says; more of them, up to --warm-most, when clients come faster than they are made; and
# again as many as before when nobody comes for --warm-idle seconds. Nobody of a burst gets ordinary memory for the region's.
# Where it may, in a /dev/shm of its own: who asks all bridges wakes those of other tests.
. "$(dirname "$0")/own_mounts.sh"
may_mount "$own_shm" && own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/lib.sh"
need python3
waiting() { # waiting N: until as many wait for clients
    for _ in $(seq 600); do
        now=$($build/bin/barcuda ps --json | python3 -c 'import json, sys; print(*(b["waiting_workers"] for b in json.load(sys.stdin)["bridges"] if b["name"] == sys.argv[1]))' "warm-$$")
        [ "$now" = "$1" ] && return
        sleep 0.1
    done
    fail "$1 workers should wait for clients, $now do"
}
burst() { # burst N
    local all=() i
    for i in $(seq "$1"); do BARCUDA_STATS=1 client "$build/programs/vector_add" > "$scratch/out.$i" 2>&1 & all+=($!); done
    wait "${all[@]}"
    for i in $(seq "$1"); do
        grep -q PASSED "$scratch/out.$i" && grep -q 'fallbacks  *0 blocks' "$scratch/out.$i" || fail "program $i of $1 at once: $(cat "$scratch/out.$i")"
    done
}
size=4G serve --no-vm --name "warm-$$" --warm 1 --warm-most 4 --warm-idle 8
waiting 1
burst 12
waiting 4
waiting 1
kill "$bridge"; wait "$bridge"; bridge=
# Of four there is room for two, or three: each keeps 64 MiB of the region, and has something for itself.
size=4G serve --no-vm --name "warm-$$" --warm 1 --warm-most 4 --warm-idle 60 --warm-memory 200M
waiting 1
burst 12
waiting 2
burst 12
waiting 2
echo passed
