// SPDX-License-Identifier: Apache-2.0
// add_one.cu: the smallest whole CUDA program: 32 doubles go to the device, a kernel adds one to each, they come back.
#include <cstdio>
#include <cstdlib>

__global__ void add_one(double* x) { x[threadIdx.x] += 1; }

int main() {
    const int n = 32;
    const size_t bytes = n * sizeof(double);

    double* device = nullptr;
    if (cudaMalloc(&device, bytes) != cudaSuccess) {
        fprintf(stderr, "cudaMalloc: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    double* host = (double*)malloc(bytes);
    for (int i = 0; i < n; i++) host[i] = i;

    cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
    add_one<<<1, n>>>(device);
    cudaError_t launched = cudaGetLastError();
    cudaDeviceSynchronize();
    cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
    cudaError_t finished = cudaGetLastError();
    if (launched != cudaSuccess || finished != cudaSuccess) {
        fprintf(stderr, "add_one: %s, %s\n", cudaGetErrorString(launched), cudaGetErrorString(finished));
        return 1;
    }

    int wrong = 0;
    for (int i = 0; i < n; i++) {
        printf("%g%c", host[i], i % 16 == 15 ? '\n' : ' ');
        wrong += host[i] != i + 1;
    }
    cudaFree(device);
    free(host);
    printf(wrong ? "FAILED: %d of 32 are wrong\n" : "PASSED\n", wrong);
    return wrong != 0;
}
