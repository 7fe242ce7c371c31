/* SPDX-License-Identifier: Apache-2.0
 * functions.c: attributes and occupancy of a kernel
 */
#include "runtime.h"

int main(void) {
    struct cudaFuncAttributes its;
    cudaLibrary_t library;
    int blocks = 0;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaFuncGetAttributes(&its, add));
    printf("%d threads, %d shared, %d constant, PTX %d\n", its.maxThreadsPerBlock, (int)its.sharedSizeBytes,
           (int)its.constSizeBytes, its.ptxVersion);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
    printf("%d blocks\n", blocks);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, add, 1024, 16384, cudaOccupancyDefault));
    printf("%d blocks\n", blocks);
    CHECK(cudaFuncSetCacheConfig(add, cudaFuncCachePreferL1));
    CHECK(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 32768));
    CHECK(cudaFuncGetAttributes(&its, add));
    printf("%d dynamic\n", its.maxDynamicSharedSizeBytes);
    return passed();
}
