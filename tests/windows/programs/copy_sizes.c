/* SPDX-License-Identifier: Apache-2.0
 * copy_sizes.c: copies of many sizes, from a byte to a MiB, of memory that is not pinned
 */
#include "check.h"

int main(void) {
    size_t bytes;
    CUdeviceptr p;
    unsigned char *from = malloc(1 << 20), *to = malloc(1 << 20);
    begin();
    CHECK(cuMemAlloc(&p, 1 << 20));
    for (bytes = 0; bytes < 1 << 20; ++bytes) from[bytes] = (unsigned char)(bytes * 7 + bytes / 251);
    for (bytes = 1; bytes <= 1 << 20; bytes = bytes * 3 / 2 + 1) {
        memset(to, 0, 1 << 20);
        CHECK(cuMemcpyHtoD(p, from, bytes));
        CHECK(cuMemcpyDtoH(to, p, bytes));
        EXPECT(!memcmp(from, to, bytes));
        EXPECT(bytes == 1 << 20 || !to[bytes]);
    }
    CHECK(cuMemcpyHtoD(p, from, 1 << 20));
    CHECK(cuMemcpyDtoH(to, p + 12345, 1000));
    EXPECT(!memcmp(from + 12345, to, 1000));
    CHECK(cuMemFree(p));
    return passed();
}
