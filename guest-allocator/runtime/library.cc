// SPDX-License-Identifier: Apache-2.0
// library.cc: code that the program loads itself ("Library Management"), and the driver's functions by name.
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>

#include "guest-allocator/runtime/registry.h"

using namespace barcuda::runtime;

API cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* jit, void** jit_values,
                        unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count) {
    return ask(cuLibraryLoadData, library, code, jit, jit_values, jit_count, options, values, count);
}
API cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file, cudaJitOption* jit, void** jit_values,
                            unsigned jit_count, cudaLibraryOption* options, void** values, unsigned count) {
    return ask(cuLibraryLoadFromFile, library, file, jit, jit_values, jit_count, options, values, count);
}
API cudaLibraryUnload(cudaLibrary_t library) { return ask(cuLibraryUnload, library); }

// A kernel of a library may be used wherever a kernel's host function may: cudaLaunchKernel, cudaFuncGetAttributes...
API cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
    cudaError_t error = ask(cuLibraryGetKernel, kernel, library, name);
    return error ? error : record(adopt(*kernel));
}
API cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned count, cudaLibrary_t library) {
    cudaError_t error = ask(cuLibraryEnumerateKernels, kernels, count, library);
    for (unsigned i = 0; i < count && !error; i++)
        if (kernels[i]) error = record(adopt(kernels[i]));
    return error;
}
API cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) {
    return ask(cuLibraryGetKernelCount, count, library);
}

API cudaLibraryGetGlobal(void** memory, size_t* bytes, cudaLibrary_t library, const char* name) {
    return call(cuLibraryGetGlobal, memory, bytes, library, name);
}
API cudaLibraryGetManaged(void** memory, size_t* bytes, cudaLibrary_t library, const char* name) {
    return call(cuLibraryGetManaged, memory, bytes, library, name);
}
API cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* name) {
    return call(cuLibraryGetUnifiedFunction, function, library, name);
}

// ---- entry points --------------------------------------------------------------------------------------------------
// A name that the driver does not have is an answer, not an error, if the caller asks for the answer.
static_assert(cudaDriverEntryPointSuccess == static_cast<int>(CU_GET_PROC_ADDRESS_SUCCESS) &&
              cudaDriverEntryPointSymbolNotFound == static_cast<int>(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) &&
              cudaDriverEntryPointVersionNotSufficent == static_cast<int>(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
static_assert(cudaEnableLegacyStream == static_cast<int>(CU_GET_PROC_ADDRESS_LEGACY_STREAM) &&
              cudaEnablePerThreadDefaultStream == static_cast<int>(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));

API cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags,
                                     cudaDriverEntryPointQueryResult* status) {
    if (!name || !function) return record(cudaErrorInvalidValue);
    *function = nullptr;
    if (CUresult result = init()) return record(result);
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (version > static_cast<unsigned>(CUDA_VERSION)) return record(cudaErrorInvalidValue);
    const CUresult result = cuGetProcAddress(name, function, static_cast<int>(version), flags, &found);
    if (result == CUDA_ERROR_NOT_FOUND) *function = nullptr;  // of a driver that calls it an error
    else if (result != CUDA_SUCCESS) return record(result);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    return cudaSuccess;
}

API cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                            cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion(name, function, runtime_version, flags, status);
}

// The driver's private tables. A refusal is an answer: libraries ask and can do without, and do not look at the last
// error.
API cudaGetExportTable(const void** table, const cudaUUID_t* id) { return translate(cuGetExportTable(table, id)); }

// ---- profiler ------------------------------------------------------------------------------------------------------
API cudaProfilerStart() { return call(cuProfilerStart); }
API cudaProfilerStop() { return call(cuProfilerStop); }

// ---- the driver's log, and its notifications -----------------------------------------------------------------------
API cudaLogsRegisterCallback(cudaLogsCallback_t callback, void* data, cudaLogsCallbackHandle* handle) {
    return ask(cuLogsRegisterCallback, reinterpret_cast<CUlogsCallback>(callback), data, handle);
}
API cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle) { return ask(cuLogsUnregisterCallback, handle); }
API cudaLogsCurrent(cudaLogIterator* iterator, unsigned flags) { return ask(cuLogsCurrent, iterator, flags); }
API cudaLogsDumpToFile(cudaLogIterator* iterator, const char* path, unsigned flags) {
    return ask(cuLogsDumpToFile, iterator, path, flags);
}
API cudaLogsDumpToMemory(cudaLogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
    return ask(cuLogsDumpToMemory, iterator, buffer, size, flags);
}
API cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback callback, void* data,
                                        cudaAsyncCallbackHandle_t* handle) {
    return ask(cuDeviceRegisterAsyncNotification, device, reinterpret_cast<CUasyncCallback>(callback), data, handle);
}
API cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t handle) {
    return ask(cuDeviceUnregisterAsyncNotification, device, handle);
}
