#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bridge as a unit: it tells systemd when guests may come, that it lives, and that it leaves; its options come from a file,
# from the environment or from the command line, which wins; --print-config writes a file with all of them.
. "$(dirname "$0")/../lib.sh"
need python3

# What systemd would hear, in $scratch/heard, a message a line.
python3 - "$scratch/notify" "$scratch/heard" << 'E' &
import socket, sys
socket_ = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
socket_.bind(sys.argv[1])
with open(sys.argv[2], "a", buffering=1) as heard:
    while True:
        print(socket_.recv(4096).decode().replace("\n", " "), file=heard)
E
listener=$!
trap 'kill $listener; finish' EXIT
until [ -e "$scratch/heard" ]; do kill -0 $listener || fail "nobody listens"; sleep 0.02; done

export NOTIFY_SOCKET=$scratch/notify WATCHDOG_USEC=1000000
serve --warm 0
await '^READY=1 STATUS=region .*: ' "$scratch/heard"
await '^WATCHDOG=1' "$scratch/heard"
kill -TERM "$bridge" && wait "$bridge" || fail "SIGTERM: status $?"
bridge=
await '^STOPPING=1' "$scratch/heard"
: > "$scratch/heard"
unset WATCHDOG_USEC
serve --warm 0
kill -TERM "$bridge" && wait "$bridge"
bridge=
await '^STOPPING=1' "$scratch/heard"
! grep WATCHDOG "$scratch/heard" || fail "nobody has asked for a watchdog"
unset NOTIFY_SOCKET

# Every option of the help is in the file, but those that are no settings; and the file can be read with each of them set
# that has a default.
bridge_program=$build/bin/barcuda-bridge
$bridge_program --print-config > "$scratch/all.conf" || fail "--print-config"
for option in $($bridge_program --help | sed -n 's/^  --\([a-z-]*\).*/\1/p'); do
    case $option in version | config | print-config | ready-fd) continue ;; esac
    grep -q "^#$option =" "$scratch/all.conf" || fail "--$option is not in $(cat "$scratch/all.conf")"
done
refused() { # refused TEXT ARGUMENTS...: the bridge ends at once, and says TEXT
    local text=$1; shift
    ! timeout 60 $bridge_program --device "$device" --warm 0 "$@" > "$scratch/err" 2>&1 || fail "$* was not refused"
    grep -qF -- "$text" "$scratch/err" || fail "$*: no '$text' in $(cat "$scratch/err")"
}
sed 's/^#\([a-z-]* = .\)/\1/; s/^size = .*/size = 300M/' "$scratch/all.conf" > "$scratch/set.conf"
refused '314572800 bytes are not a power of two' --config "$scratch/set.conf" --region "$scratch/none"
echo 'regoin = "x"' > "$scratch/wrong.conf"
refused regoin --config "$scratch/wrong.conf"
refused missing.conf --config "$scratch/missing.conf"

# The environment is the weakest. A file that it names may be missing.
printf 'region = "%s"\nsize = 300M\n' "$scratch/of-file" > "$scratch/one.conf"
export BARCUDA_REGION=$scratch/of-environment BARCUDA_CONFIG=$scratch/one.conf
refused "$scratch/of-file: 314572800"
refused "$scratch/of-line: 314572800" --region "$scratch/of-line"
export BARCUDA_CONFIG=$scratch/missing.conf
refused "$scratch/of-environment: 314572800" --size 300M
echo passed
