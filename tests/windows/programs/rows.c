/* SPDX-License-Identifier: Apache-2.0
 * rows.c: memory with a pitch is copied by rows
 */
#include "check.h"

int main(void) {
    enum { width = 100, height = 30 };
    unsigned char from[height][width], to[height][width];
    size_t pitch;
    int x, y;
    CUdeviceptr p;
    CUDA_MEMCPY2D copy;
    begin();
    for (y = 0; y < height; ++y)
        for (x = 0; x < width; ++x) from[y][x] = (unsigned char)(x ^ y * 3);
    CHECK(cuMemAllocPitch(&p, &pitch, width, height, 4));
    EXPECT(pitch >= width);
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    copy.srcPitch = width;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = p;
    copy.dstPitch = pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    CHECK(cuMemcpy2D(&copy));
    for (y = 0; y < height; ++y) CHECK(cuMemcpyDtoH(to[y], p + y * pitch, width));
    EXPECT(!memcmp(from, to, sizeof from));
    CHECK(cuMemFree(p));
    return passed();
}
