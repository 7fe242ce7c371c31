#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A GPU that is there to see, with a driver that does not start: the bridge finds out when its first worker starts it. Then programs run on
# the software GPU, or, where a GPU was asked for, the bridge says why there is none, and nothing stays.
. "$(dirname "$0")/../own_mounts.sh"
own_mounts "devices" 'mount -t tmpfs tmpfs /mnt && (cd /mnt && mkdir pts shm && touch null zero full random urandom tty nvidiactl &&
    for d in null zero full random urandom tty pts shm; do mount --bind /dev/$d $d || exit; done) && mount --rbind /mnt /dev'
device=soft
. "$(dirname "$0")/../lib.sh"
mkdir "$scratch/driver"
says() { # says WHAT MESSAGE ARGUMENTS...: a bridge that ends at once
    local what=$1 message=$2; shift 2
    timeout 20 env LD_LIBRARY_PATH="$scratch/driver" "$build/bin/barcuda-bridge" --region "$scratch/none" "$@" > "$scratch/out" 2>&1
    case $? in 0 | 124) fail "$what: it began" ;; esac
    grep -q "$message" "$scratch/out" || fail "$what: not '$message' but: $(cat "$scratch/out")"
    [ ! -e "$scratch/none" ] || fail "$what: a region was left"
    [ -z "$(pgrep -f -- "--region $scratch/none")" ] || fail "$what: a process was left"
}
falls_back() { # falls_back WHAT: to the software GPU
    device=auto serve --no-vm
    grep -q 'software GPU: 0 ' "$scratch/log" || fail "$1: it serves something else"
    client "$build/programs/vector_add" | grep -q PASSED || fail "$1: vector_add"
    kill "$bridge"; wait "$bridge"; bridge=; rm "$scratch/region"
    LD_LIBRARY_PATH="$scratch/driver" "$build/bin/barcuda" run -- "$build/programs/vector_add" | grep -q PASSED || fail "$1: barcuda run"
}
says "none" 'no usable GPU: ' --device cuda  # no libcuda.so.1, or one without its devices
falls_back "none"
# One that is found and has nothing to serve: its cuInit fails, or it ends its process.
for how in 'return 100;' 'abort();' 'return 0;'; do
    echo "#include <stdlib.h>
int cuInit(unsigned flags) { (void)flags; $how }
int cuDeviceGetCount(int* count) { return *count = 0; }
int cuStreamWriteValue64_v2(void) { return 1; }
int cuMemHostRegister_v2(void) { return 1; }
int cuFuncGetParamInfo(void) { return 1; }" | ${CC:-gcc} -x c -shared -fPIC -o "$scratch/driver/libcuda.so.1" - || fail "cc"
    case $how in 'return 0;') why='it sees no GPU' ;; return*) why='cuInit: ' ;; *) why='the driver crashed while it was tried' ;; esac
    says "$how" "no usable GPU: $why" --device cuda
    LD_LIBRARY_PATH="$scratch/driver" "$build/bin/barcuda" run -- "$build/programs/vector_add" | grep -q PASSED || fail "$how: barcuda run"
done
# Nobody's region is touched for a driver that does not start, and one that never ends its start is not waited for when it is enough.
serve --no-vm
kill "$bridge"; wait "$bridge"; bridge=
before=$(head -c 4096 "$scratch/region" | sha256sum)
LD_LIBRARY_PATH="$scratch/driver" timeout 20 "$build/bin/barcuda-bridge" --region "$scratch/region" --device cuda > "$scratch/out" 2>&1 &&
    fail "it serves $scratch/region"
[ "$(head -c 4096 "$scratch/region" | sha256sum)" = "$before" ] || fail "a region was changed for a driver that does not start"
printf 'int cuInit(unsigned flags) { for (;;) (void)flags; }\nint cuStreamWriteValue64_v2, cuMemHostRegister_v2, cuFuncGetParamInfo;\n' |
    ${CC:-gcc} -x c -shared -fPIC -o "$scratch/driver/libcuda.so.1" - || fail "cc"
for cage in --cage=privileges --no-cage=all; do  # in its cage the worker does not find that driver: then a child tries it
    LD_LIBRARY_PATH="$scratch/driver" "$build/bin/barcuda-bridge" --region "$scratch/none" --device cuda --no-vm $cage 2> "$scratch/out" &
    bridge=$!
    until [ -n "$(pgrep -P $bridge)" ]; do kill -0 $bridge || fail "it ended: $(cat "$scratch/out")"; sleep 0.05; done
    kill "$bridge"; wait "$bridge" || fail "it was told to end, and ends with $?: $(cat "$scratch/out")"
    bridge=
    [ ! -e "$scratch/none" ] || fail "a region was left by a bridge that was told to end"
done
echo passed
