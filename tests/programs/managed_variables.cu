// SPDX-License-Identifier: Apache-2.0
// managed_variables: __managed__ variables, which the CPU and kernels take turns to read and write: numbers, an array,
// one that a kernel reaches by its name and by a pointer, in streams and in graphs.
#include <cstring>
#include <vector>

#include "check.h"

__managed__ int counter = 41;
__managed__ double values[3000];
__managed__ int votes = 0;
__device__ __managed__ struct {
    int a;
    char text[20];
} both = {7, "as it began"};

__global__ void count(int n) { counter += n; }
__global__ void scale(double by) {
    for (int i = threadIdx.x; i < 3000; i += blockDim.x) values[i] *= by;
}
__global__ void vote() { atomicAdd(&votes, 1); }
__global__ void by_pointer(int* p) { *p += 1000; }
__global__ void rename() {
    both.a++;
    both.text[0] = 'A';
}

int main() {
    REQUIRE(counter == 41 && both.a == 7 && !strcmp(both.text, "as it began") && values[2999] == 0);
    count<<<1, 1>>>(1);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(counter == 42);
    counter = 100;
    for (int i = 0; i < 3000; ++i) values[i] = i;
    count<<<1, 1>>>(1);
    count<<<1, 1>>>(1);
    scale<<<1, 100>>>(2.5);
    rename<<<1, 1>>>();
    CHECK(cudaDeviceSynchronize());
    REQUIRE(counter == 102 && both.a == 8 && !strcmp(both.text, "As it began"));
    for (int i = 0; i < 3000; ++i) REQUIRE(values[i] == i * 2.5);

    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    by_pointer<<<1, 1, 0, stream>>>(&counter);
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(counter == 1102);
    count<<<1, 1, 0, stream>>>(1);
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(counter == 1103);

    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, &counter));
    REQUIRE(attributes.type == cudaMemoryTypeManaged);
    int copy = 0, five = 5;
    CHECK(cudaMemcpyFromSymbol(&copy, counter, sizeof copy));
    REQUIRE(copy == 1103);
    CHECK(cudaMemcpyToSymbol(counter, &five, sizeof five));
    count<<<1, 1>>>(1);
    CHECK(cudaMemcpy(&copy, &counter, sizeof copy, cudaMemcpyDefault));
    REQUIRE(copy == 6);

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    count<<<1, 1, 0, stream>>>(10);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 3; ++round) {
        counter = round * 100;
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(counter == round * 100 + 20);
    }
    // Kernels in several streams; the CPU writes to other words meanwhile, and loses nothing.
    cudaStream_t streams[4];
    for (cudaStream_t& s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int i = 0; i < 200; ++i) {
        vote<<<2, 50, 0, streams[i % 4]>>>();
        values[i] = -i;
    }
    CHECK(cudaDeviceSynchronize());
    REQUIRE(votes == 200 * 100);
    for (int i = 0; i < 200; ++i) REQUIRE(values[i] == -i);
    for (int round = 1; round <= 100; ++round) {  // whichever stream is the last to say what it saw
        for (int i = 0; i < 16; ++i) vote<<<2, 16, 0, streams[i % 4]>>>();
        CHECK(cudaDeviceSynchronize());
        REQUIRE(votes == 200 * 100 + round * 16 * 32);
    }

    // A fill and a copy that are still to come when the kernel is given to the same stream.
    double *device, ones[3000];
    for (double& d : ones) d = 1;
    CHECK(cudaMalloc(&device, sizeof ones));
    CHECK(cudaMemcpyAsync(device, ones, sizeof ones, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(values, device, sizeof ones, cudaMemcpyDefault, stream));
    CHECK(cudaMemsetAsync(values, 0, 100 * sizeof(double), stream));
    scale<<<1, 100, 0, stream>>>(3);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3000; ++i) REQUIRE(values[i] == (i < 100 ? 0 : 3));
    CHECK(cudaMemcpyFromSymbol(ones, values, sizeof ones));
    REQUIRE(ones[99] == 0 && ones[100] == 3);

    // With no pinned memory left, where that ends within a gibibyte.
    std::vector<void*> taken;
    for (size_t bytes = 16 << 20; bytes >= 4096;) {
        void* p;
        if (taken.size() == 64 || cudaHostAlloc(&p, bytes, 0) != cudaSuccess) bytes /= 2, (void)cudaGetLastError();
        else taken.push_back(p);
    }
    counter = 7;
    count<<<1, 1>>>(1);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(counter == 8);
    for (void* p : taken) CHECK(cudaFreeHost(p));
    std::printf("variables of the CPU and the GPU\nPASSED\n");
    return 0;
}
