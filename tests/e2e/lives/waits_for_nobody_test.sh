#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bridge serves all its clients in one loop, and none of them and no worker makes the others wait: not a worker that asks without
# end and reads no answer, not one that is long in ending, not one that has died while it waited for a client.
. "$(dirname "$0")/../lib.sh"
need g++
serve
served() { timeout 60 "${guest[@]}" "$build/programs/vector_add" 2>&1 | grep -q PASSED || fail "the next client: $1"; }
worker_of() { sed -n "s/.*channel $1: client admitted, worker \([0-9]*\).*/\1/p" "$scratch/log" | tail -n 1; }
make_program() { # make_program NAME: its text on standard input
    cat > "$scratch/$1.cc"
    g++ -std=c++20 -D_GNU_SOURCE -I. -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -o "$scratch/$1" "$scratch/$1.cc" || fail "g++ $1"
}

# A worker that waits, with its context ready, and dies: nobody gets it.
warm=$(pgrep -P "$bridge") || fail 'there is no warm worker'
kill -9 "$warm"
while [ -e "/proc/$warm" ] && ! grep -q '^State:.Z' "/proc/$warm/status" 2> /dev/null; do sleep 0.01; done
served 'it was given a dead worker'

# Its end is somebody else's to see first, here a debugger's, who takes his time.
make_program debugger <<'CC'
#include <cstdio>
#include <cstdlib>
#include <sys/ptrace.h>
#include <unistd.h>
int main(int, char** pid) {
    if (ptrace(PTRACE_SEIZE, std::atoi(pid[1]), 0, 0) != 0) return std::perror("ptrace"), 77;
    std::puts("running"), std::fflush(stdout);
    for (char c; read(0, &c, 1) > 0;) {}
}
CC
start one "$build/e2e/endless"; one=$!
worker=$(worker_of 0)
mkfifo "$scratch/go"
"$scratch/debugger" "$worker" < "$scratch/go" > "$scratch/debugger.out" 2>&1 &
debugger=$!
exec 8> "$scratch/go"
until grep -q running "$scratch/debugger.out"; do
    kill -0 $debugger 2> /dev/null || { wait $debugger; [ $? = 77 ] && echo "skipped: no process may be traced here" && exit 77; fail debugger; }
    sleep 0.02
done
kill -9 $one; wait $one 2> /dev/null
while ! grep -q '^State:.Z' "/proc/$worker/status" 2> /dev/null; do sleep 0.01; done
served 'the bridge waited for a worker to end'
reclaimed() { grep -c 'channel 0: reclaimed' "$scratch/log"; }
before=$(reclaimed)
exec 8>&-
wait $debugger
for _ in $(seq 3000); do [ "$(reclaimed)" -gt "$before" ] && break; sleep 0.02; done
[ "$(reclaimed)" -gt "$before" ] || fail 'the channel was not reclaimed when its worker had ended, or before that'

# The worker's end of its link, in the hands of somebody who asks and asks.
make_program flood <<'CC'
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "host-bridge/between/link.h"
int main(int, char** pid) {
    const long process = syscall(SYS_pidfd_open, std::atoi(pid[1]), 0);
    const int link = static_cast<int>(syscall(SYS_pidfd_getfd, process, barcuda::link_fd, 0));
    if (link < 0) return std::perror("pidfd_getfd"), 77;
    const barcuda::Message<barcuda::request::Withdraw> nothing{};
    while (send(link, &nothing, sizeof nothing, MSG_NOSIGNAL) > 0) {}
}
CC
start two "$build/e2e/endless"; two=$!
worker=$(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log" | tail -n 1)
kill -STOP "$worker"
timeout 60 "$scratch/flood" "$worker"; case $? in 0) ;; 77) echo 'skipped: no descriptor may be taken here'; exit 77 ;; *) fail 'the bridge has stopped to answer' ;; esac
served 'the bridge waited for a worker to read'
wait $two; [ $? = 3 ] || fail "the client of that worker ended with $?: $(cat "$scratch/two.out")"
grep -q 'does not read the answers' "$scratch/two.err" || fail "no reason was given: $(cat "$scratch/two.err")"
# All who had a client have ended by now, or are about to: the bridge has reaped them, and the one that died while it waited.
for worker in "$warm" $(sed -n 's/.*client admitted, worker \([0-9]*\).*/\1/p' "$scratch/log"); do
    for _ in $(seq 500); do [ -e "/proc/$worker" ] || continue 2; sleep 0.02; done
    fail "worker $worker was left: $(grep ^State: "/proc/$worker/status")"
done
echo passed
