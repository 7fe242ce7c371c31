# SPDX-License-Identifier: Apache-2.0
"""Children that are forked while another thread begins, ends or asks have NVML for themselves, also with several threads."""
import re

import pytest

from e2e.flat import LIBRARIES, need, needs_soft, run, succeed, written

pytestmark = needs_soft("of the guest alone")
# Eight children at a time: most of their time is a wait for the monitor's next values.
FORKS = r"""
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
static void begin_child(void) {
    pthread_t thread[4];
    if (fork() != 0) return;
    alarm(60);  // instead of a hang
    for (int t = 0; t < 4; t++) pthread_create(&thread[t], 0, ask, 0);
    for (int t = 0; t < 4; t++) pthread_join(thread[t], 0);
    _exit(0);
}
int main(int argc, char** argv) {
    pthread_t thread;
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, 0, 2);
    if (argc > 1) pthread_create(&thread, 0, keep, &ready), pthread_barrier_wait(&ready);
    else pthread_create(&thread, 0, again, 0);
    enum { children = 40, together = 8 };
    for (int i = 0; i < children + together; i++) {
        int status = 1;
        if (i >= together && (wait(&status) < 0 || status)) return fprintf(stderr, "a child: status %d\n", status), 1;
        if (i < children) begin_child();
    }
    puts("PASSED");
}
"""


@pytest.fixture(scope="module")
def forks(shared):
    need("gcc")
    succeed("gcc", "-w", "-o", shared / "forks", written(shared / "forks.c", FORKS), f"-L{LIBRARIES}/barcuda", "-l:libnvidia-ml.so.1", "-pthread")
    return shared / "forks"


@pytest.mark.parametrize("how", [[], ["initialized"]], ids=["beside a thread that begins and ends NVML", "beside one that keeps it"])
def test_forked_children_have_nvml_for_themselves(region, forks, how):
    region.serve()
    sanitizer = re.search(r"lib[at]san\S* => (\S+)", succeed("ldd", LIBRARIES / "barcuda/libnvidia-ml.so.1"))
    ran = run(forks, *how, env={**region.named, "LD_LIBRARY_PATH": LIBRARIES / "barcuda", "LD_PRELOAD": sanitizer and sanitizer[1]})
    assert ran.status == 0 and "PASSED" in ran.out, ran
