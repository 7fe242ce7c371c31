#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Children that are forked while another thread begins, ends or asks have NVML for themselves, also with several threads.
. "$(dirname "$0")/../lib.sh"
need gcc
[ "$device" = soft ] || { echo "skipped: of the guest alone"; exit 77; }
serve
sanitizer=$(ldd "$build/lib/barcuda/libnvidia-ml.so.1" | awk '/lib[at]san/ { print $3 }')
none=(env BARCUDA_REGION="$scratch/region" LD_LIBRARY_PATH="$PWD/$build/lib/barcuda" ${sanitizer:+LD_PRELOAD="$sanitizer"})
cat > "$scratch/forks.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int nvmlInit_v2(void), nvmlShutdown(void), nvmlDeviceGetCount_v2(unsigned*), nvmlDeviceGetHandleByIndex_v2(unsigned, void**);
int nvmlDeviceGetMemoryInfo(void*, unsigned long long*);
#define MUST(call) do { int status = (call); if (status) fprintf(stderr, "%d: %s: %d\n", getpid(), #call, status), _exit(1); } while (0)
static void* ask(void* unused) {
    unsigned n = 0;
    void* device;
    unsigned long long memory[3];
    MUST(nvmlInit_v2());
    MUST(nvmlDeviceGetCount_v2(&n));
    MUST(nvmlDeviceGetHandleByIndex_v2(n - 1, &device));
    MUST(nvmlDeviceGetMemoryInfo(device, memory));
    MUST(nvmlShutdown());
    return 0;
}
static void* again(void* unused) { for (;;) ask(0); }
static void* keep(void* ready) {
    MUST(nvmlInit_v2());
    MUST(pthread_barrier_wait(ready) > 0);
    for (;;) ask(0);
}
int main(int argc, char** argv) {
    pthread_t thread, more[4];
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, 0, 2);
    if (argc > 1) pthread_create(&thread, 0, keep, &ready), pthread_barrier_wait(&ready);
    else pthread_create(&thread, 0, again, 0);
    for (int i = 0; i < 40; i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);  // instead of a hang
            for (int t = 0; t < 4; t++) pthread_create(&more[t], 0, ask, 0);
            for (int t = 0; t < 4; t++) pthread_join(more[t], 0);
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status) return fprintf(stderr, "child %d: status %d\n", i, status), 1;
    }
    puts("PASSED");
}
C
gcc -w -o "$scratch/forks" "$scratch/forks.c" -L"$build/lib/barcuda" -l:libnvidia-ml.so.1 -pthread || fail "gcc"
for how in "" initialized; do
    timeout 200 "${none[@]}" "$scratch/forks" $how > "$scratch/forks.out" 2>&1 && grep -q PASSED "$scratch/forks.out" || fail "forks beside a thread in NVML ($how): $(cat "$scratch/forks.out")"
done
echo passed
