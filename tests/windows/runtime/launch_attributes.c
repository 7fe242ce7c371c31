/* SPDX-License-Identifier: Apache-2.0
 * launch_attributes.c: a launch with attributes, and launches that are refused
 */
#include "runtime.h"

int main(void) {
    int numbers[128], *p, value = 3, i;
    unsigned n = 128;
    void* arguments[] = {&p, &n, &value};
    cudaLibrary_t library;
    cudaLaunchConfig_t how;
    cudaLaunchAttribute attribute;
    const void* add = kernel_of(&library, "add");
    memset(&how, 0, sizeof how);
    memset(&attribute, 0, sizeof attribute);
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMemset(p, 0, sizeof numbers));
    how.gridDim = extent(1, 1, 1);
    how.blockDim = extent(128, 1, 1);
    how.attrs = &attribute;
    how.numAttrs = 1;
    attribute.id = cudaLaunchAttributePriority;
    CHECK(cudaLaunchKernelExC(&how, add, arguments));
    CHECK(cudaMemcpy(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    for (i = 0; i < 128; ++i) EXPECT(numbers[i] == 3);
    how.blockDim = extent(4096, 1, 1);
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelExC(&how, add, arguments)));
    printf("%s\n", cudaGetErrorName(cudaLaunchKernel(add, extent(0, 1, 1), extent(1, 1, 1), arguments, 0, NULL)));
    printf("%s\n", cudaGetErrorName(cudaLaunchKernel(add, extent(1, 1, 1), extent(1, 1, 1), arguments, 1 << 24, NULL)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaDeviceSynchronize());
    return passed();
}
