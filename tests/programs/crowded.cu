// SPDX-License-Identifier: Apache-2.0
// crowded: a program that takes all the memory it can get before its first kernel. Whatever CUDA needs of its own then
// must still be found: code is loaded, rows and boxes and arrays are copied, streams and events work.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "check.h"

__global__ void increment(unsigned char* bytes, size_t n) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
        ++bytes[i];
}

static unsigned char pattern(size_t i) { return static_cast<unsigned char>(i * 37 + i / 251); }

int main() {
    CHECK(cudaFree(nullptr));
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(malloc(16 << 20));  // a gibibyte, never touched
    for (size_t bytes = 8 << 20; bytes >= 4096; bytes /= 2)
        for (int i = 0; i < 8; ++i) blocks.push_back(malloc(bytes));
    std::vector<void*> pinned;
    for (size_t bytes = 16 << 20; bytes >= 4096;) {  // and what is left, up to a gibibyte of it
        void* p;
        if (pinned.size() == 64 || cudaHostAlloc(&p, bytes, 0) != cudaSuccess) bytes /= 2, (void)cudaGetLastError();
        else pinned.push_back(p);
    }
    constexpr size_t width = 300000, height = 7, depth = 3, bytes = width * height * depth;
    auto* memory = static_cast<unsigned char*>(
        mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory != MAP_FAILED);
    unsigned char *source = memory, *target = memory + bytes, *device;
    for (size_t i = 0; i < bytes; ++i) source[i] = pattern(i);
    const auto check = [&](int more) {
        for (size_t i = 0; i < bytes; ++i) REQUIRE(target[i] == static_cast<unsigned char>(pattern(i) + more));
        std::memset(target, 0xcc, bytes);
    };
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&device, bytes));
    CHECK(cudaMemcpyAsync(device, source, bytes, cudaMemcpyHostToDevice, stream));
    increment<<<64, 256, 0, stream>>>(device, bytes);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaMemcpy(target, device, bytes, cudaMemcpyDeviceToHost));
    check(1);

    CHECK(cudaMemset(device, 0, bytes));
    CHECK(cudaMemcpy2DAsync(device, width, source, width, width, height * depth, cudaMemcpyHostToDevice, stream));
    increment<<<64, 256, 0, stream>>>(device, bytes);
    CHECK(cudaMemcpy2DAsync(target, width, device, width, width, height * depth, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    check(1);

    cudaArray_t array;  // of rows that are short enough for one
    const cudaChannelFormatDesc channel = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
    constexpr size_t columns = 2000, rows = 25, planes = bytes / (4 * columns * rows);
    CHECK(cudaMalloc3DArray(&array, &channel, {columns, rows, planes}));
    cudaMemcpy3DParms in = {}, out = {};
    in.srcPtr = {source, 4 * columns, columns, rows};
    in.dstArray = out.srcArray = array;
    out.dstPtr = {target, 4 * columns, columns, rows};
    in.extent = out.extent = {columns, rows, planes};
    in.kind = cudaMemcpyHostToDevice, out.kind = cudaMemcpyDeviceToHost;
    std::memcpy(target, source, bytes);
    std::memset(target, 0xcc, 4 * columns * rows * planes);
    CHECK(cudaMemcpy3D(&in));
    CHECK(cudaMemcpy3D(&out));
    check(0);

    for (void* p : pinned) CHECK(cudaFreeHost(p));
    for (void* p : blocks) free(p);
    void* p;
    CHECK(cudaHostAlloc(&p, 16 << 20, 0));
    CHECK(cudaFreeHost(p));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(device));
    std::printf("%zu blocks of pinned memory beside a gibibyte of malloc's\nPASSED\n", pinned.size());
    return 0;
}
