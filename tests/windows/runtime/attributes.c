/* SPDX-License-Identifier: Apache-2.0
 * attributes.c: what a device says of itself, attribute by attribute
 */
#include "runtime.h"

int main(void) {
    int attribute, value, count = 0;
    CHECK(cudaGetDeviceCount(&count));
    printf("%d devices\n", count);
    for (attribute = 1; attribute < 149; ++attribute) {
        if (cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)attribute, 0) != cudaSuccess) {
            printf("%d: %s\n", attribute, cudaGetErrorName(cudaGetLastError()));
            continue;
        }
        /* of Windows no memory is passed on by a descriptor */
        if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
            attribute == cudaDevAttrMemoryPoolSupportedHandleTypes)
#ifdef _WIN32
            EXPECT(value == 0);
#else
            EXPECT(value == 1);
#endif
        else printf("%d: %d\n", attribute, value);
    }
    EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99) == cudaErrorInvalidDevice);
    return passed();
}
