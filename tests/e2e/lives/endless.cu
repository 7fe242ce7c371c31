// SPDX-License-Identifier: Apache-2.0
// endless.cu: copies and launches until a call fails; then says which error it was and exits with 3. For tests that
// kill things.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

__global__ void bump(int* x) { atomicAdd(x, 1); }

int main() {
    void* too_much;
    if (cudaMalloc(&too_much, 1ull << 60) != cudaErrorMemoryAllocation) return 1;
    (void)cudaGetLastError();
    const size_t bytes = 1 << 20;
    int* host = (int*)malloc(bytes);
    int* device = nullptr;
    cudaError_t error = cudaMalloc((void**)&device, bytes);
    if (error == cudaSuccess) error = cudaMemset(device, 0, bytes);
    for (long round = 0; error == cudaSuccess; ++round) {
        error = cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
        if (error == cudaSuccess && host[0] != round) return printf("wrong: %d after %ld rounds\n", host[0], round), 4;
        bump<<<1, 1>>>(device);
        if (error == cudaSuccess) error = cudaDeviceSynchronize();
        if (round == 0) printf("running\n"), fflush(stdout);
        usleep(1000);
    }
    printf("%s\n", cudaGetErrorName(error));
    return 3;
}
