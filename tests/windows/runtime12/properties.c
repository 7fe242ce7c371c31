/* SPDX-License-Identifier: Apache-2.0
 * properties.c: the version, and the properties of which CUDA 12 has more than CUDA 13
 */
#include "runtime12.h"

int main(void) {
    static unsigned char all[1032 + 64], begin[1032 + 64];
    int version = 0, clock, status = -1;
    void* function = NULL;
    CHECK(cudaRuntimeGetVersion(&version));
    printf("version %d\n", version);
    memset(all, 0xaa, sizeof all);
    memset(begin, 0xaa, sizeof begin);
    CHECK(cudaGetDeviceProperties_v2(all, 0));
    CHECK(cudaGetDeviceProperties(begin, 0));
    EXPECT(all[1031] == 0 && all[1032] == 0xaa);
    EXPECT(memcmp(all, begin, 728) == 0 && begin[728] == 0xaa);
    memcpy(&clock, all + 348, sizeof clock); /* clockRate */
    printf("%s, %d kHz\n", (const char*)all, clock);
    CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &function, 0, &status));
    EXPECT(status == 0 && function);
    return passed();
}
