/* SPDX-License-Identifier: Apache-2.0
 * everything.c: a little of each part of the runtime API
 */
#include "runtime.h"

int main(void) {
    enum { n = 5000 };
    static int numbers[n];
    int *p, *pinned, i, count;
    struct cudaDeviceProp properties;
    struct cudaPointerAttributes attributes;
    cudaLibrary_t library;
    const void* kernel;
    cudaStream_t stream;
    cudaEvent_t begun, ended;
    float milliseconds = -1;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count >= 1);
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("%s %d.%d\n", properties.name, properties.major, properties.minor);
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaMallocHost((void**)&pinned, sizeof numbers));
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&ended));
    kernel = kernel_of(&library, "add");
    for (i = 0; i < n; ++i) pinned[i] = i;
    CHECK(cudaEventRecord(begun, stream));
    CHECK(cudaMemcpyAsync(p, pinned, sizeof numbers, cudaMemcpyHostToDevice, stream));
    for (i = 0; i < 10; ++i) launch_kernel(kernel, p, n, 4, stream);
    CHECK(cudaEventRecord(ended, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventElapsedTime(&milliseconds, begun, ended));
    EXPECT(milliseconds >= 0);
    CHECK(cudaMemcpy(numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    for (i = 0; i < n; ++i) EXPECT(numbers[i] == i + 40);
    EXPECT(cudaMalloc((void**)&p, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaLibraryUnload(library));
    CHECK(cudaDeviceReset());
    return passed();
}
