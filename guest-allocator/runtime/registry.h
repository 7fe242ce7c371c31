// SPDX-License-Identifier: Apache-2.0
// registry.h: the kernels and variables that the program's fat binaries brought along, by their host addresses.
//
// nvcc's start-up code registers each fat binary and each name in it, before main, in every program and library. That
// costs an entry in a table and nothing else: a fat binary is loaded at the first use of one of its names, once per
// process (a CUlibrary belongs to no context); a kernel becomes a CUfunction once per device.
#pragma once
#include "guest-allocator/runtime/pointer_map.h"
#include "guest-allocator/runtime/runtime.h"

namespace barcuda::runtime {

struct FatBinary;

// A kernel. `key` is the address of its host stub, or its CUkernel for one that came from cudaLibraryGetKernel.
struct Kernel {
    const void* key;
    const char* name;
    FatBinary* binary;
    Kernel* next;  // of its fat binary
    std::atomic<CUkernel> handle;
    std::atomic<std::atomic<CUfunction>*> functions;  // by device; made at first use
};

// A __device__, __constant__ or __managed__ variable. `key` is the address of its host shadow.
struct Variable {
    const void* key;
    const char* name;
    std::size_t size;
    FatBinary* binary;
    Variable* next;
    void** managed;                                    // the host's pointer to a __managed__ one, else null
    std::atomic<std::atomic<CUdeviceptr>*> addresses;  // by device; made at first use
};

// All of these leave recording to their caller.
// `unknown`: the error if no kernel is registered at that pointer.
cudaError_t function_of(const void* symbol, CUfunction* function,
                        cudaError_t unknown = cudaErrorInvalidDeviceFunction);  // ready() included
// The same for launches and questions. Their pointer may also be a kernel's handle: CUDA calls an unknown one invalid.
inline cudaError_t function_named(const void* symbol, CUfunction* function) {
    return function_of(symbol, function, symbol ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction);
}
cudaError_t function_of(Kernel& kernel, CUfunction* function);  // ready() included
cudaError_t kernel_of(const void* symbol, CUkernel* kernel);
cudaError_t address_of(const void* symbol, CUdeviceptr* address, std::size_t* size);  // ready() included
Kernel* find_kernel(const void* symbol);                      // null if there is none of that name
const void* symbol_of(CUfunction function, CUkernel kernel);  // the host's name for a kernel; null if unknown
cudaError_t adopt(CUkernel kernel);                           // from now on it may be used as a symbol
void forget_device(int device);                               // after cudaDeviceReset

}  // namespace barcuda::runtime
