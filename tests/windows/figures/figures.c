/* SPDX-License-Identifier: Apache-2.0
 * figures.c: how long copies of 16 MiB of pinned memory take, and launches that are posted: tests/bench/wine_figures.py
 */
#include <time.h>

#include "../programs/check.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static int compare(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}
static double median(double* all, int count) {
    qsort(all, count, sizeof *all, compare);
    return all[count / 2];
}

int main(void) {
    enum { bytes = 16 << 20, copies = 21, rounds = 21, launches = 500 };
    double to[copies], from[copies], posted[rounds], begun;
    void* pinned;
    CUdeviceptr p;
    CUmodule module;
    CUfunction add;
    int i, j;
    begin();
    add = function(&module, "add");
    CHECK(cuMemHostAlloc(&pinned, bytes, 0));
    CHECK(cuMemAlloc(&p, bytes));
    memset(pinned, 1, bytes);
    CHECK(cuMemcpyHtoD(p, pinned, bytes));
    for (i = 0; i < copies; ++i) {
        begun = seconds();
        CHECK(cuMemcpyHtoD(p, pinned, bytes));
        to[i] = seconds() - begun;
        begun = seconds();
        CHECK(cuMemcpyDtoH(pinned, p, bytes));
        from[i] = seconds() - begun;
    }
    for (i = 0; i < rounds; ++i) {
        CHECK(cuCtxSynchronize());
        begun = seconds();
        for (j = 0; j < launches; ++j) launch_add(add, p, 1, 1, NULL);
        posted[i] = (seconds() - begun) / launches;
        CHECK(cuCtxSynchronize());
    }
    printf("%.3f %.3f %.3f\n", bytes / median(to, copies) / 1e9, bytes / median(from, copies) / 1e9,
           median(posted, rounds) * 1e6);
    return 0;
}
