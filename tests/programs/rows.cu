// SPDX-License-Identifier: Apache-2.0
// rows: copies of rows and boxes between device memory, arrays, and host memory in the region and out of it.
#include "check.h"

#include <cstring>
#include <vector>

constexpr int width = 100, height = 37, depth = 3;

static void fill(unsigned char* p, size_t bytes, int seed) {
    for (size_t i = 0; i < bytes; ++i) p[i] = static_cast<unsigned char>(i * 31 + seed);
}

// There and back again through a pitched allocation, from `from` to `to`, whose rows are `pitch` bytes apart.
static void rows(unsigned char* from, unsigned char* to, size_t pitch, cudaStream_t stream) {
    unsigned char* device;
    size_t device_pitch;
    CHECK(cudaMallocPitch(reinterpret_cast<void**>(&device), &device_pitch, width, height));
    fill(from, pitch * height, 1);
    std::memset(to, 0xcc, pitch * height);
    CHECK(cudaMemcpy2DAsync(device, device_pitch, from, pitch, width, height, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(to, pitch, device, device_pitch, width, height, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int y = 0; y < height; ++y) {
        REQUIRE(std::memcmp(to + y * pitch, from + y * pitch, width) == 0);
        for (size_t x = width; x < pitch; ++x)
            REQUIRE(to[y * pitch + x] == 0xcc);  // between the rows nothing is touched
    }
    CHECK(cudaFree(device));
}

int main() {
    constexpr size_t pitch = 130;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    static unsigned char globals[2][pitch * height];
    unsigned char *pinned, *pinned_too;
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned), pitch * height));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned_too), pitch * height));
    std::vector<unsigned char> heap(1 << 20);
    rows(globals[0], globals[1], pitch, stream);
    rows(pinned, pinned_too, pitch, stream);
    rows(pinned, globals[0], pitch, stream);
    rows(heap.data(), pinned, pitch, stream);

    // A box, by way of a 3D array.
    cudaArray_t array;
    const cudaChannelFormatDesc bytes = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    CHECK(cudaMalloc3DArray(&array, &bytes, {width, height, depth}));
    std::vector<unsigned char> box(width * height * depth), back(box.size());
    fill(box.data(), box.size(), 5);
    cudaMemcpy3DParms in = {}, out = {};
    in.srcPtr = {box.data(), width, width, height};
    in.dstArray = out.srcArray = array;
    out.dstPtr = {back.data(), width, width, height};
    in.extent = out.extent = {width, height, depth};
    in.kind = cudaMemcpyHostToDevice, out.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&in));
    CHECK(cudaMemcpy3D(&out));
    REQUIRE(box == back);
    std::printf("rows and boxes of %d x %d x %d bytes\nPASSED\n", width, height, depth);
    return 0;
}
