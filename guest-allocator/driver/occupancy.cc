// SPDX-License-Identifier: Apache-2.0
// occupancy.cc: the block size that keeps the GPU busiest: a search over the driver's own answers, made here because
// the program's callback says how much shared memory a block of each size needs.
#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"

using namespace barcuda::guest;

CU cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                             size_t shared, int limit, unsigned flags) {
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    CUdevice device = 0;
    if (CUresult r = cuCtxGetDevice(&device); r != CUDA_SUCCESS) return r;
    int warp = 32, multiprocessors = 1, per_multiprocessor = 0, most = 0;
    cuDeviceGetAttribute(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
    cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    cuDeviceGetAttribute(&per_multiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
    if (CUresult r = command<Op::cuFuncGetAttribute>(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
        r != CUDA_SUCCESS)
        return r;
    if (limit > 0) most = std::min(most, limit);
    int best = 0;
    *grid = *block = 0;
    // From the largest size down, so that of equally good ones the largest is taken.
    for (int size = (most + warp - 1) / warp * warp; size > 0; size -= warp) {
        const int threads = std::min(size, most);
        const size_t its_shared = shared_of ? shared_of(threads) : shared;
        int blocks = 0;
        const CUresult r = command<Op::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags>(&blocks, function, threads,
                                                                                             its_shared, flags);
        if (r != CUDA_SUCCESS) return r;
        if (blocks * threads <= best) continue;
        best = blocks * threads;
        *grid = blocks * multiprocessors;
        *block = threads;
        if (best >= per_multiprocessor) break;
    }
    return CUDA_SUCCESS;
}
CU cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                    size_t shared, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}
