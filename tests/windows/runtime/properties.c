/* SPDX-License-Identifier: Apache-2.0
 * properties.c: the properties of a device
 */
#include "runtime.h"

int main(void) {
    struct cudaDeviceProp is, wish;
    char bus[32];
    int device = -1;
    CHECK(cudaGetDeviceProperties(&is, 0));
    printf("%s %d.%d, %d processors of %d threads, warps of %d\n", is.name, is.major, is.minor, is.multiProcessorCount,
           is.maxThreadsPerMultiProcessor, is.warpSize);
    printf("%llu bytes, %d shared, %d registers, %d constant\n", (unsigned long long)is.totalGlobalMem,
           (int)is.sharedMemPerBlock, is.regsPerBlock, (int)is.totalConstMem);
    printf("blocks of %d x %d x %d, grids of %d x %d x %d\n", is.maxThreadsDim[0], is.maxThreadsDim[1],
           is.maxThreadsDim[2], is.maxGridSize[0], is.maxGridSize[1], is.maxGridSize[2]);
    printf("unified %d, managed %d, pools %d, cooperative %d\n", is.unifiedAddressing, is.managedMemory,
           is.memoryPoolsSupported, is.cooperativeLaunch);
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    printf("%s\n", bus);
    CHECK(cudaDeviceGetByPCIBusId(&device, bus));
    EXPECT(device == 0);
    memset(&wish, 0, sizeof wish);
    wish.major = is.major;
    CHECK(cudaChooseDevice(&device, &wish));
    printf("chosen %d\n", device);
    return passed();
}
