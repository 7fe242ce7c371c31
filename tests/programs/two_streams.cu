// SPDX-License-Identifier: Apache-2.0
// two_streams.cu: two streams that depend on each other through events: one fills, the other adds, the first reads.
#include "check.h"

__global__ void fill(int* data, int n, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value + i;
}

__global__ void add(int* data, int n, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += value;
}

int main() {
    const int n = 1 << 16, rounds = 8;
    cudaStream_t first, second;
    cudaEvent_t begin, filled, added, end;
    CHECK(cudaStreamCreate(&first));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&added, cudaEventDisableTiming));

    int *device, *host;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaMallocHost(&host, n * sizeof(int)));

    long wrong = 0;
    CHECK(cudaEventRecord(begin, first));
    for (int round = 0; round < rounds; round++) {
        fill<<<32, 128, 0, first>>>(device, n, round);
        CHECK(cudaEventRecord(filled, first));
        CHECK(cudaStreamWaitEvent(second, filled, 0));
        add<<<32, 128, 0, second>>>(device, n, 1000);
        CHECK(cudaEventRecord(added, second));
        CHECK(cudaStreamWaitEvent(first, added, 0));
        CHECK(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, first));
        CHECK(cudaStreamSynchronize(first));
        for (int i = 0; i < n; i++) wrong += host[i] != round + i + 1000;
    }
    CHECK(cudaEventRecord(end, first));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventQuery(added));
    float milliseconds = -1;
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    printf("%d rounds over two streams; the events' clock ran %s\n", rounds, milliseconds > 0 ? "forward" : "wrongly");
    wrong += milliseconds <= 0;

    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(filled));
    CHECK(cudaEventDestroy(added));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    return verdict(wrong);
}
