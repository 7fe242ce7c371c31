// SPDX-License-Identifier: Apache-2.0
// occupancy_calls.cc: how many blocks fit. The engine counts; a multiprocessor is a core with hardware's limits.
#include <algorithm>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/module.h"

namespace barcuda::soft::driver {
namespace {

Limits device_limits() {
    Limits limits;
    limits.compute_capability = Driver::get().settings.compute_capability();
    limits.multiprocessors = Driver::get().settings.cores;
    int shared = 0;
    cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
    limits.max_shared_bytes_per_block = shared;
    return limits;
}

int blocks(const Function& function, int threads, std::size_t dynamic_shared) {
    require(threads > 0);
    if (threads > function.info.max_threads_per_block) return 0;
    return std::max(0, max_active_blocks(device_limits(), function.info, threads, dynamic_shared));
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
    return api([&] {
        require(numBlocks);
        *numBlocks = blocks(*function_of(func), blockSize, dynamicSMemSize);
    });
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
    if (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
    return api([&] {
        require(minGridSize && blockSize);
        const auto function = function_of(func);
        int most = function->info.max_threads_per_block;
        if (blockSizeLimit > 0) most = std::min(most, blockSizeLimit);
        int best = 0, best_threads = 0, best_blocks = 0;
        for (int threads = std::max(most / 32 * 32, std::min(most, 32)); threads > 0; threads -= 32) {
            const std::size_t shared =
                blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(threads) : dynamicSMemSize;
            const int fit = blocks(*function, threads, shared);
            if (fit * threads > best) {
                best = fit * threads;
                best_threads = threads;
                best_blocks = fit;
            }
        }
        require(best > 0);
        *blockSize = best_threads;
        *minGridSize = best_blocks * Driver::get().settings.cores;
    });
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags) {
    if (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                            blockSizeLimit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
    return api([&] {
        require(dynamicSmemSize && numBlocks > 0 && blockSize > 0 && blockSize <= 1024);
        const auto function = function_of(func);
        const std::size_t most = static_cast<std::size_t>(device_limits().max_shared_bytes_per_block);
        std::size_t low = 0, high = most;  // the largest size with which numBlocks still fit
        if (blocks(*function, blockSize, 0) < numBlocks) high = 0;
        while (low < high) {
            const std::size_t middle = (low + high + 1) / 2;
            if (blocks(*function, blockSize, middle) >= numBlocks) low = middle;
            else high = middle - 1;
        }
        *dynamicSmemSize = low;
    });
}

// There are only clusters of one block.
CUresult cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
    return api([&] {
        require(clusterSize && config);
        function_of(func);
        *clusterSize = 1;
    });
}
CUresult cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
    return api([&] {
        require(numClusters && config && (config->numAttrs == 0 || config->attrs));
        for (unsigned i = 0; i < config->numAttrs; ++i) {
            const auto& size = config->attrs[i].value.clusterDim;
            if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && size.x * size.y * size.z > 1)
                refuse("a cluster of blocks");
        }
        const int threads = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
        *numClusters = blocks(*function_of(func), threads, config->sharedMemBytes) * Driver::get().settings.cores;
    });
}
