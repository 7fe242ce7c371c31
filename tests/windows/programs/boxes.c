/* SPDX-License-Identifier: Apache-2.0
 * boxes.c: a box of a volume is copied
 */
#include "check.h"

int main(void) {
    enum { side = 8 };
    unsigned char from[side][side][side], to[4][4][4];
    int x, y, z;
    CUdeviceptr p;
    CUDA_MEMCPY3D copy;
    begin();
    for (z = 0; z < side; ++z)
        for (y = 0; y < side; ++y)
            for (x = 0; x < side; ++x) from[z][y][x] = (unsigned char)(z * 64 + y * 8 + x);
    CHECK(cuMemAlloc(&p, sizeof from));
    CHECK(cuMemcpyHtoD(p, from, sizeof from));
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = p;
    copy.srcPitch = copy.srcHeight = side;
    copy.srcXInBytes = 1;
    copy.srcY = 2;
    copy.srcZ = 3;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    copy.dstPitch = copy.dstHeight = 4;
    copy.WidthInBytes = copy.Height = copy.Depth = 4;
    CHECK(cuMemcpy3D(&copy));
    for (z = 0; z < 4; ++z)
        for (y = 0; y < 4; ++y)
            for (x = 0; x < 4; ++x) EXPECT(to[z][y][x] == from[z + 3][y + 2][x + 1]);
    return passed();
}
