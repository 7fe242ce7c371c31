#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program that finds in its ring what no worker writes (something has overwritten the channel) says so and ends its waits: it does not
# wait for an answer that cannot come.
. "$(dirname "$0")/lib.sh"
need python3
need pgrep
serve --no-vm
start client "$build/e2e/endless"; client=$!
worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")
kill -STOP "$worker" || fail "no worker: $(cat "$scratch/log")"
# A descriptor's last 8 bytes are length, id and flags; bits 7 and 15 of the flags say "used" in every other round of the ring, and
# neither in the rounds between. The first entries of layout.h have the numbers.
python3 - "$scratch/region" <<'PY' || fail "the ring cannot be written"
import re, struct, sys, time
layout = open("shm-device/layout.h").read()
def number(name):
    text = re.search(rf"#define {name}\s+(.+?)(?:/\*|$)", layout, re.M)[1].strip()
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)(?:ull|u|ULL|U)?\b", r"\1", text)
    return eval(re.sub(r"BARCUDA_\w+", lambda m: str(number(m[0])), text))
ring = number("BARCUDA_CHANNELS_OFFSET") + number("BARCUDA_RING_OFFSET")
with open(sys.argv[1], "r+b", buffering=0) as region:
    for flags in (0x8080, 0):
        for i in range(number("BARCUDA_QUEUE_SIZE")):
            region.seek(ring + 16 * i + 8)
            region.write(struct.pack("<IHH", 0, 65535, flags))
        time.sleep(1)  # it may look once a tenth of a second
PY
await 'completed a command that it was not given' "$scratch/client.err"
kill -CONT "$worker" 2> /dev/null
wait "$client"
echo passed
