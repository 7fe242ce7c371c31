#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest's root writes other numbers into the header while a new bridge takes the region over, and opens channels that there are not. The
# bridge goes by its own numbers: it lives, serves the clients that have a channel, and lists no others.
. "$(dirname "$0")/lib.sh"
need python3
cat > "$scratch/root.py" <<'PY'
import mmap, os, struct, sys, time
path, channels = sys.argv[1], int(sys.argv[2])
region = mmap.mmap(os.open(path, os.O_RDWR), 0x100000)
word = lambda at: struct.unpack_from("<I", region, at)[0]
write = lambda at, value: struct.pack_into("<I", region, at, value)
true, count, beat = region[:8], word(64), word(160)
until = time.monotonic() + 60
def awaited(what):
    if time.monotonic() > until: sys.exit("a minute without " + what)
    return True
print("running", flush=True)
while region[:8] == true and word(160) == beat: awaited("a bridge that takes the region over")
while region[:8] != true and awaited("an announcement"): write(64, channels)
taken = word(64) == channels
for slot in range(count, min(channels, 480)):             # those further on are in other tables
    at = 0x1000 + 128 * slot
    write(at + 8, 0), write(at, word(at + 4) + 1)         # as a module opens one
beat = word(160)
while (word(160) - beat) % 2**32 < 8: awaited("a heartbeat")  # the bridge has looked at them
write(64, count)                                          # for the library, which refuses such a header
print("taken" if taken else "late", flush=True)
PY
# A takeover that ends before root is given a processor is made again.
taken_over() {
    kill "$bridge"; wait "$bridge"; bridge=
    python3 "$scratch/root.py" "$scratch/region" $channels > "$scratch/root" 2>&1 & root=$!
    await running "$scratch/root"
    serve
    wait $root || fail "$(cat "$scratch/root")"
    grep -qx taken "$scratch/root"
}
serve  # of 16 channels
for channels in 470 3900; do
    for try in $(seq 21); do taken_over && break; done
    [ $try -le 20 ] || fail "root was late 20 times"
    for _ in 1 2; do
        "$build/bin/barcuda" limit --region "$scratch/region" --json > "$scratch/json" || fail "$channels channels: barcuda limit: $(cat "$scratch/json")"
        python3 -c 'import json, sys; sys.exit(any(c["channel"] >= 16 for c in json.load(open(sys.argv[1]))["clients"]))' "$scratch/json" || fail "$channels channels: clients that are not there: $(head -c 1000 "$scratch/json")"
        client "$build/programs/vector_add" > "$scratch/out" 2>&1; grep -q PASSED "$scratch/out" || fail "$channels channels: $(cat "$scratch/out")"
    done
    kill -0 "$bridge" || fail "$channels channels: the bridge has ended"
    echo "$channels channels: passed"
done
