/* SPDX-License-Identifier: Apache-2.0
 * volumes.c: memory of three dimensions
 */
#include "runtime.h"

int main(void) {
    enum { width = 20, height = 7, depth = 5 };
    static unsigned char from[depth][height][width], to[depth][height][width];
    struct cudaPitchedPtr p;
    struct cudaExtent all = {width, height, depth};
    struct cudaMemcpy3DParms copy;
    int x, y, z;
    memset(&copy, 0, sizeof copy);
    CHECK(cudaMalloc3D(&p, all));
    for (z = 0; z < depth; ++z)
        for (y = 0; y < height; ++y)
            for (x = 0; x < width; ++x) from[z][y][x] = (unsigned char)(x + 20 * y + 3 * z);
    copy.srcPtr.ptr = from;
    copy.srcPtr.pitch = copy.srcPtr.xsize = width;
    copy.srcPtr.ysize = height;
    copy.dstPtr = p;
    copy.extent = all;
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    copy.srcPtr = p;
    copy.dstPtr.ptr = to;
    copy.dstPtr.pitch = copy.dstPtr.xsize = width;
    copy.dstPtr.ysize = height;
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&copy, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    EXPECT(memcmp(from, to, sizeof from) == 0);
    all.depth = 1;
    CHECK(cudaMemset3D(p, 1, all));
    CHECK(cudaMemcpy3D(&copy));
    EXPECT(to[0][0][0] == 1 && to[0][6][19] == 1 && memcmp(from[1], to[1], sizeof from - sizeof from[0]) == 0);
    CHECK(cudaFree(p.ptr));
    return passed();
}
