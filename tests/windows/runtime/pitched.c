/* SPDX-License-Identifier: Apache-2.0
 * pitched.c: rows of two dimensions
 */
#include "runtime.h"

int main(void) {
    enum { width = 100, height = 37 };
    static unsigned char from[height][width], to[height][width];
    void* p;
    size_t pitch = 0;
    int x, y;
    CHECK(cudaMallocPitch(&p, &pitch, width, height));
    EXPECT(pitch >= width);
    printf("pitch %d\n", (int)pitch);
    for (y = 0; y < height; ++y)
        for (x = 0; x < width; ++x) from[y][x] = (unsigned char)(x * y);
    CHECK(cudaMemcpy2D(p, pitch, from, width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemset2D((char*)p + pitch, pitch, 9, 50, 2));
    CHECK(cudaMemcpy2DAsync(to, width, p, pitch, width, height, cudaMemcpyDeviceToHost, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    for (y = 0; y < height; ++y)
        for (x = 0; x < width; ++x) EXPECT(to[y][x] == (x < 50 && (y == 1 || y == 2) ? 9 : from[y][x]));
    EXPECT(cudaMemcpy2D(p, width - 1, from, width, width, height, cudaMemcpyHostToDevice) ==
           cudaErrorInvalidPitchValue);
    CHECK(cudaFree(p));
    return passed();
}
