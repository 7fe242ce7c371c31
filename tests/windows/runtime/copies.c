/* SPDX-License-Identifier: Apache-2.0
 * copies.c: copies of each kind, of many sizes
 */
#include "runtime.h"

int main(void) {
    static const size_t sizes[] = {1, 3, 4096, 65537, 1 << 20, 5000000};
    unsigned char *from, *to, *a, *b;
    size_t i, j;
    const size_t room = 5000000;
    from = calloc(1, room);
    to = calloc(1, room);
    EXPECT(from && to);
    for (i = 0; i < room; ++i) from[i] = (unsigned char)(i * 7 + i / 256);
    CHECK(cudaMalloc((void**)&a, room));
    CHECK(cudaMalloc((void**)&b, room));
    for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        memset(to, 0, room);
        CHECK(cudaMemcpy(a, from, sizes[i], cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(b, a, sizes[i], cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpyAsync(to, b, sizes[i], cudaMemcpyDefault, NULL));
        CHECK(cudaStreamSynchronize(NULL));
        for (j = 0; j < sizes[i]; ++j) EXPECT(to[j] == from[j]);
    }
    CHECK(cudaMemcpy(to, from, 100, cudaMemcpyHostToHost));
    EXPECT(cudaMemcpy(a, from, room + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(a, from, 1, (enum cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    CHECK(cudaMemcpy(a, NULL, 0, cudaMemcpyHostToDevice));
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    CHECK(cudaFree(NULL));
    return passed();
}
