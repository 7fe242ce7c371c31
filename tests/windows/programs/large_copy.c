/* SPDX-License-Identifier: Apache-2.0
 * large_copy.c: a copy that is larger than any staging buffer
 */
#include "check.h"

int main(void) {
    const size_t bytes = (size_t)48 << 20;
    size_t i;
    CUdeviceptr p, q;
    unsigned *from = malloc(bytes), *to = calloc(bytes, 1);
    begin();
    CHECK(cuMemAlloc(&p, bytes));
    CHECK(cuMemAlloc(&q, bytes));
    for (i = 0; i < bytes / 4; ++i) from[i] = (unsigned)(i * 2654435761u);
    CHECK(cuMemcpyHtoD(p, from, bytes));
    CHECK(cuMemcpyDtoD(q, p, bytes));
    CHECK(cuMemcpyDtoH(to, q, bytes));
    EXPECT(!memcmp(from, to, bytes));
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(q));
    return passed();
}
