#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker that dies leaves its client with an error and a line that says why and in which command, never a hang; other clients do not
# notice.
. "$(dirname "$0")/lib.sh"
serve
start one "$build/e2e/endless"; one=$!
start two "$build/e2e/endless"; two=$!
worker=$(sed -n 's/.*channel 0: client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log")
kill -9 "$worker"
wait $one; [ $? = 3 ] || fail "the client ended with $? instead of an error: $(cat "$scratch/one.out")"
grep -q 'killed by signal 9' "$scratch/one.err" || fail "no reason was given: $(cat "$scratch/one.err")"
kill -0 $two || fail "the other client ended too: $(cat "$scratch/two.out")"
kill $two; wait $two 2> /dev/null
client "$build/programs/vector_add" | grep -q PASSED || fail "the next client"

# One that waits for the bridge in the middle of a command: in which, is said.
cat > "$scratch/sharing.cc" <<'CC'
#include <cstdio>
#include <unistd.h>
extern "C" int cudaMalloc(void**, unsigned long);
extern "C" int cudaIpcGetMemHandle(void*, void*);
int main() {
    char handle[64];
    for (void* p; cudaMalloc(&p, 1 << 20) == 0 && cudaIpcGetMemHandle(handle, p) == 0; usleep(100000))
        std::puts("running"), std::fflush(stdout);
    return 3;
}
CC
need g++
g++ -o "$scratch/sharing" "$scratch/sharing.cc" "$build/lib/libbarcuda.so" || fail "g++"
start sharing "$scratch/sharing"; sharing=$!
worker=$(sed -n 's/.*channel .*: client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log" | tail -n 1)
kill -STOP "$bridge"
for _ in $(seq 400); do grep -qE '^(45|47) ' "/proc/$worker/syscall" && break; sleep 0.02; done  # recvfrom, recvmsg: the bridge's answer
kill -9 "$worker"; kill -CONT "$bridge"
wait $sharing; [ $? = 3 ] || fail "the client ended with $? instead of an error: $(cat "$scratch/sharing.out")"
grep -q 'killed by signal 9 (Killed) in cuIpcGetMemHandle' "$scratch/sharing.err" || fail "the command was not named: $(cat "$scratch/sharing.err")"
echo passed
