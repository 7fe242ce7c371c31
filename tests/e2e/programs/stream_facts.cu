// SPDX-License-Identifier: Apache-2.0
// stream_facts.cu: asks twice what flags and what priority a stream has, fills rows of memory, and uses the GPU; says
// what each call answered. (test_versions.py takes some of these calls away from it.)
#include <cuda_runtime.h>

#include <cstdio>

__global__ void add(int* x, int n) { atomicAdd(x, n); }

int main() {
    int least = 0, greatest = 0, *device = nullptr, host = 0;
    cudaStream_t stream = nullptr;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaError_t error = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
    if (error != cudaSuccess) return printf("%s\n", cudaGetErrorName(error)), 1;
    cudaMalloc((void**)&device, 4096);
    for (int i = 0; i < 2; ++i) {
        unsigned flags = 77;
        int priority = 77;
        const char* asked = cudaGetErrorName(cudaStreamGetFlags(stream, &flags));
        printf("flags %s %d, ", asked, static_cast<int>(flags));
        asked = cudaGetErrorName(cudaStreamGetPriority(stream, &priority));
        printf("priority %s %d of %d, ", asked, priority, greatest);
        printf("rows %s\n", cudaGetErrorName(cudaMemset2DAsync(device, 64, 0, 32, 4, stream)));
    }
    cudaGetLastError();
    cudaMemsetAsync(device, 0, 4096, stream);
    add<<<1, 32, 0, stream>>>(device, 2);
    error = cudaMemcpyAsync(&host, device, sizeof host, cudaMemcpyDeviceToHost, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    printf(error == cudaSuccess && host == 64 ? "PASSED\n" : "FAILED: %s, %d\n", cudaGetErrorName(error), host);
    return error != cudaSuccess || host != 64;
}
