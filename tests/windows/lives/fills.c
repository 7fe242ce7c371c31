/* SPDX-License-Identifier: Apache-2.0
 * fills.c: a program that takes all device memory that it gets, says how much there is and how many blocks it got, and
 * keeps them until its input ends
 */
#include "../programs/check.h"

int main(void) {
    enum { block = 16 << 20 };
    CUdeviceptr p;
    size_t free_bytes, total;
    int count = 0;
    begin();
    CHECK(cuMemGetInfo(&free_bytes, &total));
    while (cuMemAlloc(&p, block) == CUDA_SUCCESS) ++count;
    EXPECT(count > 0 && (size_t)count * block <= total);
    printf("running: %d blocks of %llu\n", count, (unsigned long long)total);
    fflush(stdout);
    while (getchar() != EOF) continue;
    return passed();
}
