#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A bridge that is stopped, or killed without a word, leaves its clients with an error; a new one takes the region over.
. "$(dirname "$0")/lib.sh"
for how in TERM KILL; do
    serve
    start victim "$build/e2e/endless"; victim=$!
    kill -$how "$bridge"; wait "$bridge" 2> /dev/null; bridge=
    wait $victim; status=$?
    [ $status = 3 ] || fail "after SIG$how the client ended with $status: $(cat "$scratch"/victim.*)"
    grep -q 'the GPU is lost' "$scratch/victim.err" || fail "after SIG$how no reason was given"
done
serve
client "$build/programs/vector_add" | grep -q PASSED || fail "a client of the bridge that took over"

# A worker whose bridge is killed before it has begun does not live on, though somebody else may still hold the bridge's end of the link: the
# next bridge waits for it.
need g++
cat > "$scratch/orphan.cc" <<'CC'
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "host-bridge/between/link.h"
using namespace barcuda;
int main(int, char** words) {  // BRIDGE DRIVER
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int link[2], told[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link) || pipe(told)) return 2;
    if (fork() == 0) {  // the bridge
        const pid_t bridge = getpid(), worker = fork();
        if (worker == 0) {
            raise(SIGSTOP);
            dup2(memfd_create("region", 0), 30), dup2(link[1], 31), dup2(STDERR_FILENO, 32), dup2(told[1], 33);
            dup2(memfd_create("sheet", 0), 34);
            const int from[] = {30, 31, 32, 33, 34, 32}, to[] = {region_fd, link_fd, STDERR_FILENO, errors_fd, sheet_fd, into_errors_fd};
            for (int i = 0; i < 6; ++i) dup2(from[i], to[i]);
            close_range(into_errors_fd + 1, ~0u, 0);
            execl(words[1], "barcuda-bridge", "--worker", words[2], nullptr);
        }
        Preparation prepared{};
        prepared.bridge = bridge, prepared.devices = 1;
        if (write(told[1], &worker, sizeof worker) < 0 || send(link[0], &prepared, sizeof prepared, 0) < 0) _exit(2);
        waitpid(worker, nullptr, WUNTRACED);
        _exit(0);
    }
    pid_t worker = 0;
    if (read(told[0], &worker, sizeof worker) < 0) return 2;
    while (wait(nullptr) == -1) {}  // the bridge
    kill(worker, SIGCONT);
    int status = 0;
    alarm(60);
    waitpid(worker, &status, 0);
    return status;
}
CC
g++ -std=c++20 -D_GNU_SOURCE -I. -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -o "$scratch/orphan" "$scratch/orphan.cc" || fail "g++"
"$scratch/orphan" "$PWD/$build/bin/barcuda-bridge" "$PWD/$build/lib/barcuda-soft/libcuda.so.1" || fail "a worker whose bridge has ended ended with $?"
echo passed
