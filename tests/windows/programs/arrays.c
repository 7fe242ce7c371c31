/* SPDX-License-Identifier: Apache-2.0
 * arrays.c: an array is written and read by rows
 */
#include "check.h"

int main(void) {
    enum { width = 20, height = 6 };
    float from[height][width], to[height][width];
    int x, y;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR descriptor = {width, height, CU_AD_FORMAT_FLOAT, 1}, is;
    CUDA_MEMCPY2D copy;
    begin();
    for (y = 0; y < height; ++y)
        for (x = 0; x < width; ++x) from[y][x] = (float)(y * 100 + x);
    CHECK(cuArrayCreate(&array, &descriptor));
    CHECK(cuArrayGetDescriptor(&is, array));
    EXPECT(is.Width == width && is.Height == height);
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    copy.srcPitch = sizeof from[0];
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = sizeof from[0];
    copy.Height = height;
    CHECK(cuMemcpy2D(&copy));
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.dstPitch = sizeof to[0];
    copy.WidthInBytes = sizeof to[0];
    copy.Height = height;
    CHECK(cuMemcpy2D(&copy));
    EXPECT(!memcmp(from, to, sizeof from));
    CHECK(cuArrayDestroy(array));
    return passed();
}
