#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A bridge that stands still is shown as silent, never as none; and sockets that another user has made hide no bridge.
. "$(dirname "$0")/../own_mounts.sh"
own_mounts "a /dev/shm" "$own_shm"
. "$(dirname "$0")/../lib.sh"
need python3
barcuda=$build/bin/barcuda
trap 'kill -CONT $bridge 2> /dev/null; kill $others 2> /dev/null; finish' EXIT
others=
serve --no-vm --name seen
$barcuda ps > "$scratch/out" || fail "ps of a bridge: $(cat "$scratch/out")"
grep -q "^seen  *$bridge " "$scratch/out" || fail "ps: $(cat "$scratch/out")"
kill -STOP "$bridge"
$barcuda ps > "$scratch/out" 2> "$scratch/err"; status=$?
[ $status = 1 ] || fail "ps of a silent bridge ended with $status: $(cat "$scratch/out")"
grep -Eq "^\?  *$bridge  *silent$" "$scratch/out" || fail "ps: $(cat "$scratch/out")"
! grep -q "No bridge" "$scratch/out" "$scratch/err" || fail "ps: $(cat "$scratch/out" "$scratch/err")"
$barcuda ps --json > "$scratch/json" 2> /dev/null && fail "ps --json of a silent bridge ended with 0"
python3 -c 'import json, sys; all = json.load(open(sys.argv[1])); assert [b["pid"] for b in all["silent_bridges"]] == [int(sys.argv[2])] and not all["bridges"], all' "$scratch/json" "$bridge" || fail "ps --json"
$barcuda top --once --interval 0.1 2> /dev/null | grep -qx "No bridge answers; one is silent." || fail "top"
kill -CONT "$bridge"
$barcuda ps > "$scratch/out" || fail "ps of a bridge that goes on: $(cat "$scratch/out")"
echo "silent"

python3 - <<'PY' &
import os, socket, time
os.setgid(65534); os.setuid(65534)
held = []
for i in range(1100):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(f"/dev/shm/barcuda-limits-0-0-{i}")             # none listens
    if i < 500: held.append(s)
    else: s.close()
open("/dev/shm/made", "w").close()
time.sleep(600)
PY
others=$!
until [ -e /dev/shm/made ]; do kill -0 $others || fail "no sockets"; sleep 0.02; done
$barcuda ps > "$scratch/out" 2>&1 || fail "ps beside 1100 sockets of another user: $(cat "$scratch/out")"
grep -q "^seen  *$bridge " "$scratch/out" || fail "hidden: $(cat "$scratch/out")"
kill $others; wait $others 2> /dev/null; others=
echo passed
