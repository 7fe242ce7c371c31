/* SPDX-License-Identifier: Apache-2.0
 * managed.c: places are devices
 */
#include "runtime12.h"

int main(void) {
    unsigned char* p;
    stream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocManaged((void**)&p, 1 << 20, 1));
    memset(p, 1, 1 << 20);
    printf("%s\n", cudaGetErrorName(cudaMemAdvise(p, 1 << 20, 1, 0)));
    printf("%s\n", cudaGetErrorName(cudaMemPrefetchAsync(p, 1 << 20, -1, stream)));
    EXPECT(cudaMemAdvise(p, 1 << 20, 99, 0) != 0);
    CHECK(cudaMemset(p, 7, 1 << 20));
    CHECK(cudaDeviceSynchronize());
    EXPECT(p[0] == 7 && p[(1 << 20) - 1] == 7);
    CHECK(cudaFree(p));
    return passed();
}
