/* SPDX-License-Identifier: Apache-2.0
 * runtime_api.c: a program of the runtime API without nvcc: its kernel is a library's, loaded from PTX.
 */
#include <cuda_runtime_api.h>

#define check check_driver
#include "../programs/check.h"
#undef check
#undef CHECK

#define CHECK(call) check(call, #call, __LINE__)
static void check(cudaError_t error, const char* call, int line) {
    if (error == cudaSuccess) return;
    printf("line %d: %s: %s\n", line, call, cudaGetErrorName(error));
    exit(1);
}

int main(void) {
    enum { n = 5000 };
    static int numbers[n];
    int *p, *pinned, i, count, value = 4;
    unsigned all = n;
    struct cudaDeviceProp properties;
    struct cudaPointerAttributes attributes;
    cudaLibrary_t library;
    cudaKernel_t kernel;
    cudaStream_t stream;
    cudaEvent_t begun, ended;
    float milliseconds = -1;
    const dim3 grid = {(n + 127) / 128, 1, 1}, block = {128, 1, 1};
    void* arguments[] = {&p, &all, &value};
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
    CHECK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&kernel, library, "add"));
    for (i = 0; i < n; ++i) pinned[i] = i;
    CHECK(cudaEventRecord(begun, stream));
    CHECK(cudaMemcpyAsync(p, pinned, sizeof numbers, cudaMemcpyHostToDevice, stream));
    for (i = 0; i < 10; ++i) CHECK(cudaLaunchKernel((const void*)kernel, grid, block, arguments, 0, stream));
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
