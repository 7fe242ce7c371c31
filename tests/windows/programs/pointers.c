/* SPDX-License-Identifier: Apache-2.0
 * pointers.c: what the driver says of pointers
 */
#include "check.h"

int main(void) {
    unsigned type, ordinal;
    int ours = 0;
    void *pinned, *host;
    CUdeviceptr p, base;
    size_t bytes;
    begin();
    CHECK(cuMemAlloc(&p, 5000));
    CHECK(cuMemHostAlloc(&pinned, 5000, 0));
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    EXPECT(type == CU_MEMORYTYPE_DEVICE);
    CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    EXPECT(ordinal == 0);
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    EXPECT(type == CU_MEMORYTYPE_HOST);
    CHECK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)pinned + 8));
    EXPECT(host == (char*)pinned + 8);
    EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&ours) ==
           CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemGetAddressRange(&base, &bytes, p + 100));
    EXPECT(base == p && bytes == 5000);
    return passed();
}
