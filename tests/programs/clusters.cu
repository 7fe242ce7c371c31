// SPDX-License-Identifier: Apache-2.0
// clusters.cu: launches in clusters of blocks, which read each other's shared memory, and tensor maps, with which one
// thread fetches a tile. Devices before Hopper have neither, and neither has the software GPU: then they must be
// refused.
#include <cooperative_groups.h>
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

// Each block leaves its number in its shared memory, and takes that of the next one in its cluster.
__global__ void pass_on(int* out) {
#if __CUDA_ARCH__ >= 900
    __shared__ int mine;
    const auto cluster = cg::this_cluster();
    mine = blockIdx.x;
    cluster.sync();
    out[blockIdx.x] = *cluster.map_shared_rank(&mine, (cluster.block_rank() + 1) % cluster.num_blocks());
    cluster.sync();
#else
    out[blockIdx.x] = -1;
#endif
}

// The same, at the end of as much shared memory as a block may have.
__global__ void pass_on_far(int* out, int at) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ int room[];
    const auto cluster = cg::this_cluster();
    room[at] = blockIdx.x;
    cluster.sync();
    out[blockIdx.x] = *cluster.map_shared_rank(&room[at], (cluster.block_rank() + 1) % cluster.num_blocks());
    cluster.sync();
#else
    out[blockIdx.x] = -1;
#endif
}

constexpr int side = 64, tile = 16;

__global__ void fetch(const __grid_constant__ CUtensorMap map, int x, int y, float* out) {
#if __CUDA_ARCH__ >= 900
    __shared__ alignas(128) float box[tile * tile];
    __shared__ alignas(8) unsigned long long done;
    const auto bar = static_cast<unsigned>(__cvta_generic_to_shared(&done));
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(box));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.proxy.async;");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"((unsigned)sizeof box));
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                "r"(to),
            "l"(&map), "r"(x), "r"(y), "r"(bar)
            : "memory");
    }
    __syncthreads();
    unsigned ready = 0;
    while (!ready)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(ready)
                     : "r"(bar)
                     : "memory");
    for (int i = threadIdx.x; i < tile * tile; i += blockDim.x) out[i] = box[i];
#endif
}

static long cluster_launches(bool there_are) {
    constexpr int blocks = 32;
    int* out;
    CHECK(cudaMalloc(&out, blocks * sizeof(int)));
    long wrong = 0;
    for (int size : {2, 4, 8, 4, 4}) {
        cudaLaunchAttribute attribute{};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = blocks, config.blockDim = 32, config.attrs = &attribute, config.numAttrs = 1;
        if (!there_are) {
            wrong += cudaLaunchKernelEx(&config, pass_on, out) == cudaSuccess;
            continue;
        }
        int clusters = 0;
        CHECK(cudaOccupancyMaxActiveClusters(&clusters, pass_on, &config));
        wrong += clusters < 1;
        CHECK(cudaLaunchKernelEx(&config, pass_on, out));
        int got[blocks];
        CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int b = 0; b < blocks; ++b) wrong += got[b] != b / size * size + (b + 1) % size;
    }
    if (there_are) {  // one that cannot be: the grid is not of whole clusters
        cudaLaunchAttribute attribute{};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {4, 1, 1};
        cudaLaunchConfig_t config{};
        config.gridDim = 30, config.blockDim = 32, config.attrs = &attribute, config.numAttrs = 1;
        wrong += cudaLaunchKernelEx(&config, pass_on, out) == cudaSuccess;
        wrong += cudaGetLastError() == cudaSuccess;
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaFree(out));
    return wrong;
}

static long with_much_shared_memory() {
    constexpr int blocks = 8;
    int *out, most = 0;
    CHECK(cudaMalloc(&out, blocks * sizeof(int)));
    CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks, config.blockDim = 32, config.dynamicSmemBytes = most, config.attrs = &attribute,
    config.numAttrs = 1;
    long wrong = cudaLaunchKernelEx(&config, pass_on_far, out, 0) == cudaSuccess;
    wrong += cudaGetLastError() == cudaSuccess;
    CHECK(cudaFuncSetAttribute(pass_on_far, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaLaunchKernelEx(&config, pass_on_far, out, most / 4 - 1));
        int got[blocks];
        CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int b = 0; b < blocks; ++b) wrong += got[b] != (b ^ 1);
    }
    CHECK(cudaFree(out));
    return wrong;
}

static long tensor_maps(bool there_are) {
    cudaDriverEntryPointQueryResult found;
    void* entry = nullptr;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
    std::vector<float> matrix(side * side);
    for (int i = 0; i < side * side; ++i) matrix[i] = static_cast<float>(i);
    float *device, *out;
    CHECK(cudaMalloc(&device, matrix.size() * sizeof(float)));
    CHECK(cudaMalloc(&out, tile * tile * sizeof(float)));
    CHECK(cudaMemcpy(device, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUtensorMap map, place[2];
    const cuuint64_t size[] = {side, side}, stride[] = {side * sizeof(float)};
    const cuuint32_t box[] = {tile, tile}, steps[] = {1, 1};
    const auto make = [&](cuuint32_t rank, std::size_t off = 0) {
        auto* const at = off ? reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(place) + off) : &map;
        return encode(at, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, rank, device, size, stride, box, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    long wrong = make(0) == CUDA_SUCCESS;
    const CUresult made = make(2);
    for (std::size_t off : {8, 16, 32}) {  // not where the type says: refused, or the same
        const CUresult r = make(2, off);
        wrong += r == CUDA_SUCCESS && memcmp(reinterpret_cast<char*>(place) + off, &map, sizeof map);
        wrong += !there_are && r == CUDA_SUCCESS;
    }
    if (!there_are) return wrong + (made == CUDA_SUCCESS);
    // The same map of another address, as if it had been made for that.
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapReplaceAddress", &entry, 12000, cudaEnableDefault, &found));
    const auto replace = reinterpret_cast<decltype(&cuTensorMapReplaceAddress)>(entry);
    CUtensorMap moved = map;
    wrong += replace(&moved, device + side * tile) != CUDA_SUCCESS || !memcmp(&moved, &map, sizeof map);
    wrong += replace(&moved, device) != CUDA_SUCCESS || memcmp(&moved, &map, sizeof map);
    if (made) return fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", made), 1;
    for (int x : {0, 16, 48, 56}) {  // the last one reaches over the edge, where there are zeros
        fetch<<<1, 32>>>(map, x, 32, out);
        float got[tile * tile];
        CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int i = 0; i < tile * tile; ++i) {
            const int column = x + i % tile, row = 32 + i / tile;
            wrong += got[i] != (column < side ? matrix[row * side + column] : 0.f);
        }
    }
    CHECK(cudaFree(device));
    CHECK(cudaFree(out));
    return wrong;
}

int main() {
    int there_are = 0, major = 0;
    CHECK(cudaDeviceGetAttribute(&there_are, cudaDevAttrClusterLaunch, 0));
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    printf("clusters: %s\n", there_are ? "yes" : "no");
    return verdict(cluster_launches(there_are) + (there_are ? with_much_shared_memory() : 0) +
                   tensor_maps(there_are && major >= 9));
}
