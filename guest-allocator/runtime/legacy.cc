// SPDX-License-Identifier: Apache-2.0
// legacy.cc: names that CUDA has removed and old binaries still import: the launch of CUDA 9 and older, cudaThread*.
//
// Until CUDA 9 a launch was cudaConfigureCall, cudaSetupArgument for each argument (copied to its offset in one block
// of memory), cudaLaunch. The block goes to the driver as it is, through the `extra` parameter of cuLaunchKernel.
#include <cstdlib>
#include <cstring>

#include "guest-allocator/runtime/launch.h"

using namespace barcuda::runtime;

namespace {

constexpr std::size_t most_arguments = 4096;  // bytes; what the hardware of those days took

struct Arguments {
    std::size_t size;
    unsigned char bytes[most_arguments];
};

// Only threads of such programs own one. It is not freed with its thread: there is no cheap way, and such programs have
// few threads.
thread_local constinit Arguments* arguments = nullptr;

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t,
                                                                                       CUstream_st*);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);

API cudaConfigureCall(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    if (!arguments) arguments = static_cast<Arguments*>(std::malloc(sizeof(Arguments)));
    if (!arguments) return record(cudaErrorMemoryAllocation);
    arguments->size = 0;
    return static_cast<cudaError_t>(__cudaPushCallConfiguration(grid, block, shared, stream));
}

API cudaSetupArgument(const void* argument, size_t size, size_t offset) {
    if (!arguments || thread.depth == 0) return record(cudaErrorMissingConfiguration);
    if (!argument || offset > most_arguments || size > most_arguments - offset) return record(cudaErrorInvalidValue);
    std::memcpy(arguments->bytes + offset, argument, size);
    if (arguments->size < offset + size) arguments->size = offset + size;
    return cudaSuccess;
}

API cudaLaunch(const void* symbol) {
    dim3 grid, block;
    std::size_t shared = 0;
    cudaStream_t stream = nullptr;
    if (cudaError_t error = __cudaPopCallConfiguration(&grid, &block, &shared, &stream)) return error;
    if (!arguments) return record(cudaErrorMissingConfiguration);
    CUfunction function = nullptr;
    if (cudaError_t error = function_of(symbol, &function)) return record(error);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments->bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &arguments->size,
                     CU_LAUNCH_PARAM_END};
    return record(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                 static_cast<unsigned>(shared), stream, nullptr, extra));
}

API cudaLaunch_ptsz(const void* symbol) {
    if (thread.depth) {
        cudaStream_t& stream = thread.launches[thread.depth - 1].stream;
        if (!stream) stream = cudaStreamPerThread;
    }
    return cudaLaunch(symbol);
}

// ---- cudaThread*: what is cudaDevice* since CUDA 4 -----------------------------------------------------------------
API cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
API cudaThreadExit() { return cudaDeviceReset(); }
API cudaThreadSetLimit(cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }
API cudaThreadGetLimit(size_t* value, cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }
API cudaThreadGetCacheConfig(cudaFuncCache* config) { return cudaDeviceGetCacheConfig(config); }
API cudaThreadSetCacheConfig(cudaFuncCache config) { return cudaDeviceSetCacheConfig(config); }
