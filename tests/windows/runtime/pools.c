/* SPDX-License-Identifier: Apache-2.0
 * pools.c: memory of pools, in the order of a stream
 */
#include "runtime.h"

int main(void) {
    void *p, *q;
    int is = 0;
    cudaMemPool_t pool, usual;
    struct cudaMemPoolProps properties;
    cudaStream_t stream;
    unsigned long long threshold = 1 << 20, read = 0;
    memset(&properties, 0, sizeof properties);
    CHECK(cudaDeviceGetAttribute(&is, cudaDevAttrMemoryPoolsSupported, 0));
    EXPECT(is);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocAsync(&p, 1 << 20, stream));
    CHECK(cudaMemsetAsync(p, 1, 1 << 20, stream));
    CHECK(cudaFreeAsync(p, stream));
    CHECK(cudaDeviceGetDefaultMemPool(&usual, 0));
    CHECK(cudaDeviceGetMemPool(&pool, 0));
    EXPECT(pool == usual);
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &read));
    EXPECT(read == threshold);
    CHECK(cudaMallocFromPoolAsync(&q, 4096, pool, stream));
    CHECK(cudaFreeAsync(q, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    return passed();
}
