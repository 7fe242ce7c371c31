#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that opens and closes channels without end is given a worker 64 times at once and then four times a second; the clients of other
# processes do not wait for it, and the log does not grow with it. Programs that begin together all begin. A guest has a limit of its own.
. "$(dirname "$0")/lib.sh"
need python3
[ "$device" = soft ] || { echo "skipped: a GPU's worker takes longer to start than a process may have new ones"; exit 77; }
cat > "$scratch/storm.py" <<'PY'
import mmap, os, struct, sys, time
path, wanted = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_RDWR)
region = mmap.mmap(file, 0)
word = lambda at: struct.unpack_from("<I", region, at)[0]
write = lambda at, value: struct.pack_into("<I", region, at, value)
pid, count = os.getpid(), word(64)
born = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19])
begun, served, told = time.monotonic(), 0, False
while served < wanted:
    for i in range(count // 2):                            # and leaves the others to others
        slot, page = 0x1000 + 128 * i, 0x101000 + 0x100000 * i
        opened = word(slot)
        if not opened == word(slot + 4) == word(slot + 64): continue
        struct.pack_into("<Q", region, slot + 16, born)
        write(slot + 8, pid), write(slot, opened + 1)
        os.pread(file, 1, 0)                               # the bridge hears that
        write(page, pid), write(page + 168, 1)             # for the first device
        while word(slot + 68) != opened + 1:
            if served >= 64 and not told: told = True; print("waiting", flush=True)
        served += 1
        write(slot + 4, opened + 1)
        break
print("seconds", time.monotonic() - begun, flush=True)
PY
serve --no-vm
all=()
for i in $(seq 12); do client "$build/programs/vector_add" > "$scratch/out.$i" 2>&1 & all+=($!); done
wait "${all[@]}"
for i in $(seq 12); do grep -q PASSED "$scratch/out.$i" || fail "program $i of 12 at once: $(cat "$scratch/out.$i")"; done
! grep -q "they wait\|it waits" "$scratch/log" || fail "programs that begin together wait"
python3 "$scratch/storm.py" "$scratch/region" 74 > "$scratch/storm" 2>&1 & storm=$!
for _ in 1 2 3; do
    client "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "beside it: $(cat "$scratch/out")"
done
wait $storm || fail "$(cat "$scratch/storm")"
python3 -c 'import sys; sys.exit(not 74 <= 64 + 4 * float(sys.argv[1]) + 1)' "$(sed -n 's/seconds //p' "$scratch/storm")" || fail "74 sessions in: $(cat "$scratch/storm")"
# A machine that starts no more than four workers a second makes no process wait.
! grep -q waiting "$scratch/storm" || [ "$(grep -c "the client with pid $storm opens channels again and again" "$scratch/log")" -ge 1 ] ||
    fail "the log does not say so"
kill "$bridge"; wait "$bridge"; bridge=

# All processes of a guest together: four at once, then one a second, in the order in which they come.
rm -f "$scratch/region"
serve --no-vm --guest-starts 1
all=()
for i in $(seq 8); do client "$build/programs/vector_add" > "$scratch/out.$i" 2>&1 & all+=($!); done
wait "${all[@]}"
for i in $(seq 8); do grep -q PASSED "$scratch/out.$i" || fail "program $i of 8, with one start a second: $(cat "$scratch/out.$i")"; done
[ "$(grep -c 'more clients come than the guest may start in a second' "$scratch/log")" = 1 ] || fail "the log does not say once that they wait"
echo passed
