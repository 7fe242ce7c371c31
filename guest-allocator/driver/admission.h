// SPDX-License-Identifier: Apache-2.0
// admission.h: which driver functions a program may call where CUDA forbids most of them. Each function that programs
// can find is entered through a short piece of code that exports/admission.sh makes from the functions' names: while
// there is a reason to look (client/watched.h), that code asks here first. The library's own calls go around it.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace barcuda::guest::admission {

struct Rule {
    CUresult before_init;   // what it answers before cuInit; CUDA_SUCCESS: it works
    bool after_fault;       // works though a fault of the GPU has ended the context
    bool in_child;          // works in a process that was forked after cuInit
    bool in_host_function;  // may be called by a function that a stream or a graph runs
    bool waits;             // may wait for the GPU where the program does not say so: open captures may forbid it
};

// Names without the number of their version.
//
// Before cuInit, and in such a child, nothing works but what tells about the library itself.
inline constexpr std::string_view before_init[] = {"cuInit",           "cuDriverGetVersion", "cuGetErrorName",
                                                   "cuGetErrorString", "cuGetProcAddress",   "cuGetExportTable"};
// Some look at the object that they are given first, and there is none yet.
inline constexpr std::string_view looks_at_handle[] = {"cuStreamDestroy",     "cuEventQuery",   "cuEventSynchronize",
                                                       "cuEventElapsedTime",  "cuEventDestroy", "cuFuncGetAttribute",
                                                       "cuArrayGetDescriptor"};
inline constexpr std::string_view looks_at_value[] = {"cuFuncGetName", "cuGraphAddEmptyNode", "cuIpcGetMemHandle"};
inline constexpr std::string_view in_child[] = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                                "cuGetProcAddress"};
// A host function may not call CUDA; NVIDIA's driver answers CUDA_ERROR_NOT_PERMITTED to nearly everything. What is
// listed tells about the library alone.
inline constexpr std::string_view in_host_function[] = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                                        "cuGetProcAddress"};

// After a fault every function that looks at the context has the fault's error. What is listed asks for devices, or for
// what is kept outside of contexts; NVIDIA's driver (580.159) still answers.
// clang-format off
inline constexpr std::string_view after_fault[] = {
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetExportTable",
    "cuDeviceGet", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceTotalMem", "cuDeviceGetAttribute",
    "cuDeviceGetPCIBusId", "cuDeviceGetByPCIBusId", "cuDeviceCanAccessPeer", "cuDeviceGetP2PAttribute",
    "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool", "cuDeviceGetGraphMemAttribute", "cuDeviceGraphMemTrim",
    "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxSetFlags", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
    "cuCtxGetDevice", "cuCtxGetFlags", "cuCtxCreate", "cuCtxDestroy", "cuPointerGetAttribute", "cuPointerGetAttributes",
    "cuModuleGetLoadingMode", "cuLibraryLoadData", "cuGraphCreate", "cuGraphAddEmptyNode", "cuMemPoolTrimTo",
    "cuMemPoolGetAttribute", "cuMemPoolCreate", "cuMemAddressReserve", "cuMemCreate", "cuMemGetAllocationGranularity",
    "cuThreadExchangeStreamCaptureMode"};
// clang-format on

// CUDA's documentation calls such functions "potentially unsafe", and names cuMemAlloc alone. NVIDIA's driver (580.159)
// refuses these. Others do no harm here, since the worker's own capture mode forbids nothing.
// clang-format off
inline constexpr std::string_view waits[] = {
    "cuMemAlloc", "cuMemAllocPitch", "cuMemAllocHost", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemHostRegister",
    "cuMemHostUnregister", "cuMemFree", "cuMemFreeHost", "cuArrayCreate", "cuArray3DCreate", "cuArrayDestroy",
    "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy", "cuCtxSynchronize", "cuStreamSynchronize", "cuStreamQuery",
    "cuEventSynchronize", "cuEventQuery", "cuStreamAttachMemAsync", "cuGraphInstantiate",
    "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuCtxSetLimit", "cuCtxSetCacheConfig",
    "cuMemPoolTrimTo", "cuMemPoolGetAttribute", "cuMemPoolSetAttribute", "cuMemPoolCreate", "cuMemAdvise",
    "cuProfilerStart", "cuProfilerStop"};
// clang-format on

// cuMemAlloc of cuMemAlloc_v2_ptds.
constexpr std::string_view plain_name(std::string_view symbol) {
    if (symbol.ends_with("_ptds") || symbol.ends_with("_ptsz")) symbol.remove_suffix(5);
    const std::size_t n = symbol.size();
    if (n > 3 && symbol[n - 3] == '_' && symbol[n - 2] == 'v') symbol.remove_suffix(3);
    return symbol;
}
template <std::size_t n> constexpr bool listed(const std::string_view (&list)[n], std::string_view symbol) {
    return std::ranges::find(list, plain_name(symbol)) != std::end(list);
}
// Each entry of a list means one of the symbols at least.
template <std::size_t n, std::size_t m>
constexpr bool all_exist(const std::string_view (&list)[n], const std::string_view (&symbols)[m]) {
    return std::ranges::all_of(
        list, [&](std::string_view name) { return std::ranges::find(symbols, name, plain_name) != std::end(symbols); });
}

constexpr CUresult answer_before_init(std::string_view symbol) {
    if (listed(before_init, symbol)) return CUDA_SUCCESS;
    if (listed(looks_at_handle, symbol)) return CUDA_ERROR_INVALID_HANDLE;
    return listed(looks_at_value, symbol) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
}
constexpr Rule rule_of(std::string_view symbol) {
    return {answer_before_init(symbol), listed(after_fault, symbol), listed(in_child, symbol),
            listed(in_host_function, symbol), listed(waits, symbol)};
}

extern const Rule rules[];  // by the numbers that exports/admission.sh gives to the functions

}  // namespace barcuda::guest::admission

// Why the function may not be called by this thread now; CUDA_SUCCESS: it may be.
extern "C" [[gnu::visibility("hidden")]] CUresult barcuda_admit(unsigned function) noexcept;
