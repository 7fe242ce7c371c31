#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exporter of metrics answers though others hold connections to it: some that say nothing, some that send a byte now and then, some that ask
# and take no answer. All of these are closed in the end, and the exporter goes on.
. "$(dirname "$0")/../lib.sh"
need curl
need python3
"$build/bin/barcuda-exporter" --listen "$scratch/metrics" 2> "$scratch/err" &
exporter=$!
trap 'kill $exporter $slow 2> /dev/null; finish' EXIT
slow=
until [ -S "$scratch/metrics" ]; do kill -0 $exporter || fail "the exporter: $(cat "$scratch/err")"; sleep 0.02; done
scraped() { curl -sf -m 30 --unix-socket "$scratch/metrics" http://exporter/metrics > "$scratch/out" && grep -q '^barcuda_bridges ' "$scratch/out" || fail "$1: $(cat "$scratch/out" "$scratch/err")"; }
scraped "no one else is there"
cat > "$scratch/slow.py" << 'P'
import select, socket, sys, time
path, told = sys.argv[1], False
slow = []
def connect(kind):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        s.setblocking(False)
        if kind == 2: s.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
    except OSError: return
    slow.append((s, kind))
ended = [0, 0, 0]
most = 48
while min(ended) < 16:
    while len(slow) < most: connect(len(slow) % 3)
    for s, kind in list(slow):
        try:
            if kind == 1: s.send(b"G")
            gone = kind != 2 and s in select.select([s], [], [], 0)[0] and s.recv(64) == b""
            if kind == 2: s.send(b"\r\n")
        except BlockingIOError: gone = False
        except OSError: gone = True
        if gone: slow.remove((s, kind)), s.close(); ended[kind] += 1
    if not told: print("running", flush=True); told = True
    time.sleep(0.05)
print("all were closed", flush=True)
P
python3 "$scratch/slow.py" "$scratch/metrics" > "$scratch/slow" & slow=$!
await running "$scratch/slow"
for i in 1 2 3 4 5; do scraped "scrape $i beside slow connections"; done
await 'all were closed' "$scratch/slow"
scraped "after them"
kill -0 $exporter || fail "the exporter has ended: $(cat "$scratch/err")"
echo passed
