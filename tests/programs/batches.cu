// SPDX-License-Identifier: Apache-2.0
// batches: many copies in one call, of runs of bytes and of boxes, between memory of every kind and arrays; and managed
// memory that is prefetched and discarded in batches, where the device has such memory.
#include <algorithm>
#include <cstring>
#include <vector>

#include "driver.h"

static cudaStream_t stream;

static cudaMemcpyAttributes source_read(cudaMemcpySrcAccessOrder when) {
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = when;
    return a;
}

// To the device and back, from pinned and from pageable memory; sources that are gone at once are read at once.
static void runs() {
    constexpr int count = 6;
    constexpr size_t bytes[count] = {4, 1000, 65536, 300000, 4, 1 << 20};
    void *pinned, *device[count], *back;
    CHECK(cudaMallocHost(&pinned, 1 << 20));
    CHECK(cudaMallocHost(&back, 1 << 20));
    std::vector<std::vector<char>> pageable;
    const void* sources[count];
    for (int i = 0; i < count; ++i) {
        CHECK(cudaMalloc(&device[i], bytes[i]));
        pageable.emplace_back(bytes[i], static_cast<char>(i + 1));
        sources[i] = pageable.back().data();
    }
    memset(pinned, 77, 1 << 20);
    sources[5] = pinned;
    cudaMemcpyAttributes attributes[2] = {source_read(cudaMemcpySrcAccessOrderStream),
                                          source_read(cudaMemcpySrcAccessOrderDuringApiCall)};
    size_t from_which[2] = {0, 3};
    void* targets[count];
    for (int i = 0; i < count; ++i) targets[i] = device[i];
    CHECK(cudaMemcpyBatchAsync(targets, const_cast<void**>(sources), const_cast<size_t*>(bytes), count, attributes,
                               from_which, 2, stream));
    memset(pinned, 0, 1 << 20);  // it has been read
    for (int i = 3; i < count - 1; ++i) std::fill(pageable[i].begin(), pageable[i].end(), 0);
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; ++i) {
        CHECK(cudaMemcpyAsync(back, device[i], bytes[i], cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (size_t k = 0; k < bytes[i]; ++k) REQUIRE(static_cast<char*>(back)[k] == (i == 5 ? 77 : i + 1));
        CHECK(cudaFree(device[i]));
    }
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFreeHost(back));
}

static CUmemcpy3DOperand memory(const void* start, size_t row = 0, size_t layer = 0) {
    CUmemcpy3DOperand o = {};
    o.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    o.op.ptr.ptr = reinterpret_cast<CUdeviceptr>(start);
    o.op.ptr.rowLength = row, o.op.ptr.layerHeight = layer;
    return o;
}
static CUmemcpy3DOperand array_at(cudaArray_t array, size_t x, size_t y) {
    CUmemcpy3DOperand o = {};
    o.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
    o.op.array.array = reinterpret_cast<CUarray>(array);
    o.op.array.offset = {x, y, 0};
    return o;
}
static CUDA_MEMCPY3D_BATCH_OP operation(CUmemcpy3DOperand from, CUmemcpy3DOperand to, CUextent3D extent) {
    CUDA_MEMCPY3D_BATCH_OP o = {};
    o.src = from, o.dst = to, o.extent = extent;
    o.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return o;
}

// A box out of a larger one; and a part of an array, whose elements have 4 bytes.
static void boxes() {
    static const auto batch = entry<decltype(&cuMemcpy3DBatchAsync)>("cuMemcpy3DBatchAsync", 13000);
    constexpr size_t width = 40, height = 9, depth = 3;  // bytes, rows, layers
    unsigned char *large, *device;
    CHECK(cudaMallocHost(&large, 64 * 16 * depth));
    for (size_t i = 0; i < 64 * 16 * depth; ++i) large[i] = static_cast<unsigned char>(i * 7);
    CHECK(cudaMalloc(&device, width * height * depth));
    cudaArray_t array;
    const cudaChannelFormatDesc four = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &four, 16, 8));
    std::vector<float> elements(6 * 4), all(16 * 8), zero(16 * 8);
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = 1.5f * static_cast<float>(i + 1);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, zero.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());

    CUDA_MEMCPY3D_BATCH_OP two[2] = {operation(memory(large, 64, 16), memory(device), {width, height, depth}),
                                     operation(memory(elements.data()), array_at(array, 3, 2), {6, 4, 1})};
    DRIVER(batch(2, two, 0, stream));
    std::vector<unsigned char> back(width * height * depth);
    CHECK(cudaMemcpyAsync(back.data(), device, back.size(), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpy2DFromArrayAsync(all.data(), 64, array, 0, 0, 64, 8, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t z = 0; z < depth; ++z)
        for (size_t y = 0; y < height; ++y)
            for (size_t x = 0; x < width; ++x)
                REQUIRE(back[(z * height + y) * width + x] == large[(z * 16 + y) * 64 + x]);
    for (size_t y = 0; y < 8; ++y)
        for (size_t x = 0; x < 16; ++x) {
            const bool inside = x >= 3 && x < 9 && y >= 2 && y < 6;
            REQUIRE(all[y * 16 + x] == (inside ? elements[(y - 2) * 6 + x - 3] : 0));
        }

    REQUIRE(batch(2, two, 1, stream) == CUDA_ERROR_INVALID_VALUE);
    two[0].src.op.ptr.rowLength = width - 1;
    REQUIRE(batch(1, two, 0, stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(large));
}

static void managed() {
    int concurrent = 0;
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (!concurrent) return void(printf("no managed memory that moves: it is not asked to\n"));
    char* blocks[2];
    for (char*& b : blocks) CHECK(cudaMallocManaged(&b, 2 << 20));
    memset(blocks[0], 5, 2 << 20);
    memset(blocks[1], 6, 2 << 20);
    void* starts[2] = {blocks[0], blocks[1]};
    size_t bytes[2] = {2 << 20, 2 << 20}, first[1] = {0};
    cudaMemLocation there = {};
    there.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPrefetchBatchAsync(starts, bytes, 2, &there, first, 1, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2 << 20; ++i) REQUIRE(blocks[0][i] == 5 && blocks[1][i] == 6);
    CHECK(cudaMemDiscardBatchAsync(starts, bytes, 1, 0, stream));
    CHECK(cudaMemsetAsync(blocks[0], 9, 2 << 20, stream));  // what was there is gone
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2 << 20; ++i) REQUIRE(blocks[0][i] == 9 && blocks[1][i] == 6);
    CHECK(cudaMemDiscardAndPrefetchBatchAsync(starts, bytes, 1, &there, first, 1, 0, stream));
    CHECK(cudaMemsetAsync(blocks[0], 3, 2 << 20, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(blocks[0][0] == 3 && blocks[1][0] == 6);
    // Memory that is not managed is not moved.
    void* device;
    CHECK(cudaMalloc(&device, 2 << 20));
    REQUIRE(cudaMemPrefetchBatchAsync(&device, bytes, 1, &there, first, 1, 0, stream) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaFree(device));
    for (char* b : blocks) CHECK(cudaFree(b));
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    runs();
    boxes();
    managed();
    return verdict(0);
}
