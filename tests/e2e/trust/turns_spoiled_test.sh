#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that may write into the book of turns can keep a turn for ever, or hold its locks. A VM's workers then wait for no turns, of which one
# of them alone has waited in vain; and the log says so.
. "$(dirname "$0")/../lib.sh"
need python3
cat > "$scratch/spoil.py" <<'PY'
import ctypes, mmap, os, struct, sys, time
what, path = sys.argv[1:]
book = mmap.mmap(os.open(path, os.O_RDWR), 0)
seats = 256
gpu = 16 + 64 * 12                                         # the first one, behind the groups (host-bridge/between/turns.h)
lock, turn, since, place = gpu + 20, gpu + 24, gpu + 32, gpu + 96 + 64 * 8
me = os.getpid()
struct.pack_into("<II", book, place + (seats - 1) * 24, me, 63)
turn, lock = (ctypes.c_uint32.from_buffer(book, at) for at in (turn, lock))
since = ctypes.c_uint64.from_buffer(book, since)
print("running", flush=True)
while True:
    if what == "turn": since.value, turn.value = time.clock_gettime_ns(time.CLOCK_MONOTONIC), seats
    else: lock.value = me
PY
for what in turn lock; do
    serve --no-vm --weight 100 --turns "$scratch/turns"
    python3 "$scratch/spoil.py" $what "$scratch/turns" > "$scratch/spoil" & spoiler=$!
    await running "$scratch/spoil"
    for i in $(seq 12); do
        timeout 60 "${guest[@]}" "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "$what, program $i: $(cat "$scratch/out")"
    done
    kill $spoiler; wait $spoiler 2> /dev/null
    grep -q "turns at the GPUs do not come: somebody does not keep the rules; workers wait for none for 5 s" "$scratch/log" || fail "$what: the log does not say so"
    kill "$bridge"; wait "$bridge" || fail "$what: the bridge ended with $?"
    bridge=
    rm "$scratch/turns"
    echo "$what: passed"
done
