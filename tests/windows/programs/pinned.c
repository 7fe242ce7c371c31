/* SPDX-License-Identifier: Apache-2.0
 * pinned.c: pinned memory is copied both ways, asynchronously
 */
#include "check.h"

int main(void) {
    const size_t bytes = (size_t)16 << 20;
    size_t i;
    unsigned flags;
    int *from, *to;
    CUdeviceptr p;
    CUstream stream;
    begin();
    CHECK(cuMemHostAlloc((void**)&from, bytes, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemAllocHost((void**)&to, bytes));
    CHECK(cuMemHostGetFlags(&flags, from));
    EXPECT(!(flags & CU_MEMHOSTALLOC_WRITECOMBINED)); /* (whether it is portable is not told: all memory is) */
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&p, bytes));
    for (i = 0; i < bytes / 4; ++i) from[i] = (int)i;
    CHECK(cuMemcpyHtoDAsync(p, from, bytes, stream));
    CHECK(cuMemcpyDtoHAsync(to, p, bytes, stream));
    CHECK(cuStreamSynchronize(stream));
    EXPECT(!memcmp(from, to, bytes));
    CHECK(cuMemFreeHost(from));
    CHECK(cuMemFreeHost(to));
    EXPECT(cuMemFreeHost(to) == CUDA_ERROR_INVALID_VALUE);
    return passed();
}
