/* SPDX-License-Identifier: Apache-2.0
 * limits.c: limits, flags and the memory of a device
 */
#include "runtime.h"

int main(void) {
    size_t value = 0, free_bytes = 0, total = 0;
    unsigned flags = 0;
    enum cudaFuncCache cache;
    void* p;
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    CHECK(cudaMalloc(&p, 1 << 20));
    CHECK(cudaGetDeviceFlags(&flags));
    EXPECT(flags & cudaDeviceScheduleBlockingSync);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    CHECK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
    printf("stack %d\n", (int)value);
    EXPECT(cudaDeviceGetLimit(&value, (enum cudaLimit)99) != cudaSuccess);
    CHECK(cudaDeviceGetCacheConfig(&cache));
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes < total);
    printf("total %llu\n", (unsigned long long)total);
    CHECK(cudaDeviceReset());
    return passed();
}
