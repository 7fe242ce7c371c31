/* SPDX-License-Identifier: Apache-2.0
 * pinned.c: pinned memory that a kernel uses where the program does, and registered memory
 */
#include "runtime.h"

int main(void) {
    int *pinned, *seen, *own, *p, i;
    unsigned flags = 0;
    cudaLibrary_t library;
    struct cudaPointerAttributes its;
    const void* add = kernel_of(&library, "add");
    CHECK(cudaHostAlloc((void**)&pinned, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
    CHECK(cudaHostGetFlags(&flags, pinned));
    printf("flags %u\n", flags);
    CHECK(cudaHostGetDevicePointer((void**)&seen, pinned, 0));
    EXPECT(seen == pinned);
    CHECK(cudaPointerGetAttributes(&its, pinned));
    EXPECT(its.type == cudaMemoryTypeHost && its.devicePointer == pinned);
    for (i = 0; i < 1024; ++i) pinned[i] = i;
    launch_kernel(add, pinned, 1024, 5, NULL);
    CHECK(cudaDeviceSynchronize());
    for (i = 0; i < 1024; ++i) EXPECT(pinned[i] == i + 5);
    CHECK(cudaFreeHost(pinned));
    EXPECT((own = malloc(8192)) != NULL);
    for (i = 0; i < 2048; ++i) own[i] = 3 * i;
    CHECK(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
    CHECK(cudaMalloc((void**)&p, 8192));
    CHECK(cudaMemcpyAsync(p, own, 8192, cudaMemcpyHostToDevice, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    memset(own, 0, 8192);
    CHECK(cudaMemcpy(own, p, 8192, cudaMemcpyDeviceToHost));
    for (i = 0; i < 2048; ++i) EXPECT(own[i] == 3 * i);
    CHECK(cudaHostUnregister(own));
    EXPECT(cudaHostUnregister(own) == cudaErrorHostMemoryNotRegistered);
    return passed();
}
