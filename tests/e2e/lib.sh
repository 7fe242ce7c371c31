# SPDX-License-Identifier: Apache-2.0
# lib.sh: what the flat tests share. Each makes a region of its own, serves it, and leaves nothing behind.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
build=${BUILD:-build}
device=${DEVICE:-soft}
run="$build/bin/barcuda run --host-libraries --device $device"
scratch=$(mktemp -d /dev/shm/barcuda-test-XXXXXX)
bridge=
finish() {
    [ -n "$bridge" ] && { kill "$bridge" && wait "$bridge"; } 2> /dev/null
    rm -rf "$scratch"
}
trap finish EXIT

fail() { echo "FAILED: $*"; [ -e "$scratch/log" ] && sed 's/^/  bridge: /' "$scratch/log"; exit 1; }
need() { command -v "$1" > /dev/null || { echo "skipped: $1 is not installed"; exit 77; }; }

# A bridge of our own on $scratch/region: $bridge is its pid, $scratch/log what it says.
serve() {
    rm -f "$scratch/ready" && mkfifo "$scratch/ready"
    "$build/bin/barcuda-bridge" --region "$scratch/region" --size "${size:-1G}" --device "$device" --log-level "${level:-info}" --ready-fd 9 "$@" \
        9> "$scratch/ready" 2> "$scratch/log" &
    bridge=$!
    read -r _ < "$scratch/ready" || fail "the bridge did not come up"
}
# "${guest[@]}" PROGRAM, and client PROGRAM: as a client of it, under the library in FOLDER.
library() { # library FOLDER
    guest=(env BARCUDA_REGION="$scratch/region" LD_PRELOAD="$1/libbarcuda.so" LD_LIBRARY_PATH="$1/barcuda:$1/barcuda-libraries")
}
library "$PWD/$build/lib"
client() { "${guest[@]}" "$@"; }
# The same in the background, its output in NAME.out and NAME.err; $! is the program itself.
start() {
    local name=$1; shift
    rm -f "$scratch/$name.out"  # of an earlier one
    "${guest[@]}" "$@" > "$scratch/$name.out" 2> "$scratch/$name.err" &
    until grep -q running "$scratch/$name.out" 2> /dev/null; do
        kill -0 $! 2> /dev/null || fail "$* ended early: $(cat "$scratch/$name.out" "$scratch/$name.err")"
        sleep 0.02
    done
}
# Waits until a file holds a line; a minute without it is a failure.
await() {
    for _ in $(seq 3000); do grep -q "$1" "$2" 2> /dev/null && return; sleep 0.02; done
    fail "'$1' was never said in $2: $(cat "$2")"
}
# NVIDIA's driver has some hundred MiB of its own for each client, which count as the client's: $own of them.
measure_own() {
    own=0
    [ "$device" != soft ] || return 0
    serve --no-vm --client-device-memory 8G
    own=$(client "$build/e2e/quota" facts | sed -n 's/free \([0-9]*\) total 8192 .*/\1/p')
    [ -n "$own" ] && own=$((8192 - own)) || fail "facts: $(client "$build/e2e/quota" facts)"
    kill "$bridge"; wait "$bridge"; bridge=
    echo "the driver's own: $own MiB"
}
