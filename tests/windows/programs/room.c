/* SPDX-License-Identifier: Apache-2.0
 * room.c: the device's memory becomes less, and more again; too much is refused
 */
#include "check.h"

int main(void) {
    size_t before, during, after, total;
    CUdeviceptr p, q;
    begin();
    CHECK(cuMemGetInfo(&before, &total));
    CHECK(cuMemAlloc(&p, 8 << 20));
    CHECK(cuMemGetInfo(&during, &total));
    CHECK(cuMemFree(p));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before <= total && during + (8 << 20) <= before && after > during);
    EXPECT(cuMemAlloc(&q, total + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(cuMemAlloc(&q, 0) == CUDA_ERROR_INVALID_VALUE);
    return passed();
}
