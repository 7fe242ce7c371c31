/* SPDX-License-Identifier: Apache-2.0
 * fills.c: memory is filled with 8, 16 and 32 bits, and by rows
 */
#include "check.h"

int main(void) {
    unsigned char bytes[256];
    int i;
    CUdeviceptr p;
    begin();
    CHECK(cuMemAlloc(&p, sizeof bytes));
    CHECK(cuMemsetD8(p, 0x11, sizeof bytes));
    CHECK(cuMemsetD16(p + 16, 0x2233, 8));
    CHECK(cuMemsetD32(p + 64, 0x44556677, 4));
    CHECK(cuMemsetD2D8(p + 128, 32, 0x99, 8, 4));
    CHECK(cuMemcpyDtoH(bytes, p, sizeof bytes));
    for (i = 0; i < 256; ++i) printf("%02x%s", bytes[i], i % 32 == 31 ? "\n" : "");
    CHECK(cuMemFree(p));
    return passed();
}
