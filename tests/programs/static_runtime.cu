// SPDX-License-Identifier: Apache-2.0
// static_runtime.cu: a program with NVIDIA's runtime inside, as nvcc links one that is told nothing (this is the only
// one here that is built so): kernels, variables, streams, launches by function pointer and errors all reach the same
// place.
#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

__device__ int factor = 3;
__constant__ int offset = 4;

__global__ void scale(int* values, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] = values[i] * factor + offset;
}

int main() {
    constexpr int n = 100000;
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i) values[i] = i;
    int* device;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemcpyAsync(device, values.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
    scale<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
    const int five = 5;
    CHECK(cudaMemcpyToSymbolAsync(factor, &five, sizeof five, 0, cudaMemcpyHostToDevice, stream));
    int count = n;
    void* parameters[] = {&device, &count};
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(scale), (n + 255) / 256, 256, parameters, 0, stream));
    CHECK(cudaMemcpyAsync(values.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    long wrong = 0;
    for (int i = 0; i < n; ++i) wrong += values[i] != (i * 3 + 4) * 5 + 4;
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    int version = 0;
    CHECK(cudaRuntimeGetVersion(&version));
    wrong += !strlen(properties.name) || properties.warpSize != 32 || version != CUDART_VERSION;
    wrong += cudaFree(reinterpret_cast<void*>(16)) == cudaSuccess || cudaGetLastError() == cudaSuccess;
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    return verdict(wrong);
}
