/* SPDX-License-Identifier: Apache-2.0
 * pool.c: a pool of the program's own
 */
#include "check.h"

int main(void) {
    cuuint64_t threshold = 1 << 20, is = 0;
    CUmemPoolProps properties;
    CUmemoryPool pool;
    CUdeviceptr p;
    CUstream stream;
    const CUdevice device = begin();
    memset(&properties, 0, sizeof properties);
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    CHECK(cuMemPoolCreate(&pool, &properties));
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &is));
    EXPECT(is == threshold);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocFromPoolAsync(&p, 100000, pool, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolTrimTo(pool, 0));
    CHECK(cuMemPoolDestroy(pool));
    return passed();
}
