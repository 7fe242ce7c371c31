/* SPDX-License-Identifier: Apache-2.0
 * attributes.c: what a device says of itself, attribute by attribute
 */
#include "runtime.h"

/* Handles for other processes are descriptors, which Windows does not have. */
static int is_of_descriptors(int attribute) {
    return attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ||
           attribute == CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
}

int main(void) {
    int attribute, value, count = 0;
    CHECK(cudaGetDeviceCount(&count));
    printf("%d devices\n", count);
    for (attribute = 1; attribute < 149; ++attribute) {
        if (is_of_descriptors(attribute)) continue;
        if (cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)attribute, 0) != cudaSuccess) {
            printf("%d: %s\n", attribute, cudaGetErrorName(cudaGetLastError()));
            continue;
        }
        printf("%d: %d\n", attribute, value);
    }
    EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99) == cudaErrorInvalidDevice);
    return passed();
}
