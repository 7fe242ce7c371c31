/* SPDX-License-Identifier: Apache-2.0
 * managed.c: managed memory that both sides use
 */
#include "runtime.h"

int main(void) {
    int *p, i;
    cudaLibrary_t library;
    struct cudaPointerAttributes its;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaMallocManaged((void**)&p, 4096, cudaMemAttachGlobal));
    CHECK(cudaPointerGetAttributes(&its, p));
    EXPECT(its.type == cudaMemoryTypeManaged && its.devicePointer == p && its.hostPointer == p);
    for (i = 0; i < 1024; ++i) p[i] = i;
    launch_kernel(add, p, 1024, 1, NULL);
    CHECK(cudaDeviceSynchronize());
    for (i = 0; i < 1024; ++i) EXPECT(p[i] == i + 1);
    CHECK(cudaMemset(p, 0, 4096));
    CHECK(cudaDeviceSynchronize());
    for (i = 0; i < 1024; ++i) EXPECT(p[i] == 0);
    CHECK(cudaFree(p));
    EXPECT(cudaMallocManaged((void**)&p, 4096, 77) == cudaErrorInvalidValue);
    return passed();
}
