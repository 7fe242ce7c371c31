// SPDX-License-Identifier: Apache-2.0
// launch.cc: `kernel<<<grid, block, shared, stream>>>(...)`, in all the forms that compilers have given it.
//
// nvcc 13 turns it into: push the configuration, call the stub, which pops it, asks once for the kernel's handle, and
// launches with an array of pointers to the arguments. The arguments are the driver's to read: it knows their sizes. On
// this path there is no lock and no allocation: a thread-local stack, a handle, one cached CUfunction per device.
#include "guest-allocator/runtime/launch.h"

#include <iterator>

using namespace barcuda::runtime;

namespace barcuda::runtime {

cudaError_t launch(CUfunction function, const dim3& grid, const dim3& block, void** arguments, std::size_t shared,
                   cudaStream_t stream) {
    if (shared > UINT32_MAX) return record(cudaErrorInvalidValue);
    return record(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                 static_cast<unsigned>(shared), stream, arguments, nullptr),
                  "cudaLaunchKernel");
}

CUlaunchConfig driver_config(const cudaLaunchConfig_t& config) {
    return {config.gridDim.x,
            config.gridDim.y,
            config.gridDim.z,
            config.blockDim.x,
            config.blockDim.y,
            config.blockDim.z,
            static_cast<unsigned>(config.dynamicSmemBytes),
            config.stream,
            as<CUlaunchAttribute*>(config.attrs),
            config.numAttrs};
}

}  // namespace barcuda::runtime

// ---- nvcc's private ABI --------------------------------------------------------------------------------------------
extern "C" __attribute__((visibility("default"))) unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                                                       std::size_t shared,
                                                                                       CUstream_st* stream) {
    if (thread.depth == std::size(thread.launches)) {
        record(cudaErrorMissingConfiguration);
        return cudaErrorMissingConfiguration;  // nonzero: the stub is not called
    }
    thread.launches[thread.depth++] = {grid, block, shared, stream};
    return 0;
}

API __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
    if (thread.depth == 0) return record(cudaErrorMissingConfiguration);
    const Launch& launch = thread.launches[--thread.depth];
    *grid = launch.grid;
    *block = launch.block;
    *shared = launch.shared;
    *static_cast<cudaStream_t*>(stream) = launch.stream;
    return cudaSuccess;
}

// The stub keeps this handle in a static variable and asks only once, so it must not depend on a device or on luck: it
// is our own entry, and what may fail (finding a device, loading the code) fails at the launch, where errors are looked
// for.
API __cudaGetKernel(cudaKernel_t* handle, const void* stub) {
    Kernel* kernel = find_kernel(stub);
    *handle = reinterpret_cast<cudaKernel_t>(kernel);
    return kernel ? cudaSuccess : record(cudaErrorInvalidDeviceFunction);
}

API __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                       cudaStream_t stream) {
    if (!handle) return record(cudaErrorInvalidDeviceFunction);
    CUfunction function = nullptr;
    if (cudaError_t error = function_of(*reinterpret_cast<Kernel*>(handle), &function)) return record(error);
    return launch(function, grid, block, arguments, shared, stream);
}

API __cudaLaunchKernel_ptsz(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                            cudaStream_t stream) {
    return __cudaLaunchKernel(handle, grid, block, arguments, shared, stream ? stream : cudaStreamPerThread);
}

// ---- the manual's "Execution Control" ------------------------------------------------------------------------------
API cudaLaunchKernel(const void* symbol, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                     cudaStream_t stream) {
    CUfunction function = nullptr;
    if (cudaError_t error = function_named(symbol, &function)) return record(error);
    return launch(function, grid, block, arguments, shared, stream);
}

API cudaLaunchCooperativeKernel(const void* symbol, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                cudaStream_t stream) {
    CUfunction function = nullptr;
    if (cudaError_t error = function_named(symbol, &function)) return record(error);
    if (shared > UINT32_MAX) return record(cudaErrorInvalidValue);
    return record(cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                            static_cast<unsigned>(shared), stream, arguments));
}

API cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* symbol, void** arguments) {
    if (!config || config->dynamicSmemBytes > UINT32_MAX) return record(cudaErrorInvalidValue);
    CUfunction function = nullptr;
    if (cudaError_t error = function_named(symbol, &function)) return record(error);
    CUlaunchConfig driver = driver_config(*config);
    return record(cuLaunchKernelEx(&driver, function, arguments, nullptr));
}

API cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return call(cuLaunchHostFunc, stream, function, data);
}
