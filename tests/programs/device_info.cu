// SPDX-License-Identifier: Apache-2.0
// device_info.cu: which devices there are, and what they say of themselves.
#include "check.h"

int main() {
    int count = 0, driver = 0, runtime = 0;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaGetDeviceCount(&count));
    printf("%d device%s, driver %d.%d, runtime %d.%d\n", count, count == 1 ? "" : "s", driver / 1000, driver % 100 / 10,
           runtime / 1000, runtime % 100 / 10);
    for (int device = 0; device < count; device++) {
        cudaDeviceProp p;
        size_t free = 0, total = 0;
        char bus[32] = "?";
        CHECK(cudaGetDeviceProperties(&p, device));
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemGetInfo(&free, &total));
        CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
        printf("device %d: %s\n", device, p.name);
        printf("  compute capability   %d.%d, %d multiprocessors\n", p.major, p.minor, p.multiProcessorCount);
        printf("  memory               %zu MiB (%zu MiB free), %d bits wide, L2 %d KiB\n", p.totalGlobalMem >> 20,
               free >> 20, p.memoryBusWidth, p.l2CacheSize >> 10);
        printf("  a block              %d threads at most (%d x %d x %d), %zu bytes of shared memory, %d registers\n",
               p.maxThreadsPerBlock, p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2], p.sharedMemPerBlock,
               p.regsPerBlock);
        printf("  a grid               %d x %d x %d blocks at most\n", p.maxGridSize[0], p.maxGridSize[1],
               p.maxGridSize[2]);
        printf("  a warp               %d threads\n", p.warpSize);
        printf("  host memory          mapped: %s, same address: %s, managed: %s\n", p.canMapHostMemory ? "yes" : "no",
               p.canUseHostPointerForRegisteredMem ? "yes" : "no", p.managedMemory ? "yes" : "no");
        printf("  bus                  %s\n", bus);
        if (p.warpSize <= 0 || p.maxThreadsPerBlock <= 0 || total == 0 || p.name[0] == 0) return verdict(1);
    }
    return verdict(count == 0);
}
