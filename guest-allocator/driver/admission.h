// SPDX-License-Identifier: Apache-2.0
// admission.h: which driver functions a program may call where CUDA forbids most of them. Each function that programs
// can find is entered through a short piece of code that exports/admission.sh makes from the functions' names: while
// there is a reason to look (client/watched.h), that code asks here first. The library's own calls go around it.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace barcuda::guest::admission {

// What becomes of a call that names an object (a stream, an event, a graph, an array): NVIDIA's driver looks at the
// object before it looks at anything else.
enum class WithObject : std::uint8_t {
    nothing_else,  // all as without
    works,         // in a host function
    reads,         // and in a child that was forked after cuInit: what it tells is in the process's own books
    passes,        // in a host function; in such a child it succeeds, and does nothing
};

// What open captures mean for a call, beyond what a capture makes of it.
enum class InCapture : std::uint8_t {
    nothing,
    may_wait,         // for the GPU where the program does not say so: captures may forbid it
    waits_on_stream,  // as may_wait; of the legacy stream, whatever the mode: it would wait for streams that capture
    waits_on_event,   // as may_wait; of an event of a capture the driver says so
    in_no_graph,      // work that no graph can have, given to a stream that captures
    attaches,         // that, and as may_wait
};

struct Rule {
    CUresult before_init;   // what it answers before cuInit; CUDA_SUCCESS: it works
    bool after_fault;       // works though a fault of the GPU has ended the context
    bool in_child;          // works in a process that was forked after cuInit
    bool in_host_function;  // may be called by a function that a stream or a graph runs
    bool per_thread;        // the twin in which no stream means the thread's own
    InCapture in_capture;
    std::int8_t object;  // which argument names the object that it looks at first, from 0; -1: none
    WithObject named;
};

// What barcuda_admit() returns of a call that succeeds there and then.
inline constexpr int done = -1;

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
                                                "cuGetProcAddress", "cuThreadExchangeStreamCaptureMode"};
// A host function may not call CUDA; NVIDIA's driver answers CUDA_ERROR_NOT_PERMITTED to nearly everything. What is
// listed tells about the library alone.
inline constexpr std::string_view in_host_function[] = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                                        "cuGetProcAddress", "cuThreadExchangeStreamCaptureMode"};

// Functions that look at an object first, as they were seen to do it on 580.159; and which argument names it. In a
// child those that would have a result to tell are not let pass.
struct LooksAt {
    std::string_view name;
    std::int8_t argument;  // one of the first four: they are in registers on each system
    WithObject named;
};
// clang-format off
inline constexpr LooksAt looks_at[] = {
    {"cuStreamQuery", 0, WithObject::passes}, {"cuStreamSynchronize", 0, WithObject::passes},
    {"cuStreamDestroy", 0, WithObject::passes}, {"cuStreamWaitEvent", 0, WithObject::passes},
    {"cuStreamAddCallback", 0, WithObject::passes}, {"cuLaunchHostFunc", 0, WithObject::passes},
    {"cuStreamAttachMemAsync", 0, WithObject::passes}, {"cuStreamWriteValue32", 0, WithObject::passes},
    {"cuStreamWaitValue32", 0, WithObject::passes}, {"cuStreamCopyAttributes", 0, WithObject::passes},
    {"cuEventRecord", 1, WithObject::passes}, {"cuEventQuery", 0, WithObject::passes},
    {"cuEventSynchronize", 0, WithObject::passes}, {"cuEventDestroy", 0, WithObject::passes},
    {"cuGraphLaunch", 1, WithObject::passes}, {"cuGraphUpload", 1, WithObject::passes},
    {"cuMemsetD8Async", 3, WithObject::passes},
    {"cuStreamGetCtx", 0, WithObject::reads}, {"cuStreamGetId", 0, WithObject::reads},
    {"cuStreamIsCapturing", 0, WithObject::reads}, {"cuStreamGetCaptureInfo", 0, WithObject::reads},
    {"cuStreamGetFlags", 0, WithObject::reads}, {"cuStreamGetPriority", 0, WithObject::reads},
    {"cuStreamGetDevice", 0, WithObject::reads}, {"cuStreamGetAttribute", 0, WithObject::works},
    {"cuEventElapsedTime", 1, WithObject::works},
    {"cuGraphAddEmptyNode", 1, WithObject::works}, {"cuArrayGetDescriptor", 1, WithObject::works},
    {"cuFuncGetAttribute", 2, WithObject::nothing_else}, {"cuFuncGetName", 1, WithObject::nothing_else},
    {"cuIpcGetMemHandle", 1, WithObject::nothing_else}};
// clang-format on

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
    "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy", "cuCtxSynchronize", "cuGraphInstantiate",
    "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuCtxSetLimit", "cuCtxSetCacheConfig",
    "cuMemPoolTrimTo", "cuMemPoolGetAttribute", "cuMemPoolSetAttribute", "cuMemPoolCreate", "cuMemAdvise",
    "cuProfilerStart", "cuProfilerStop"};
// clang-format on
inline constexpr std::string_view waits_on_stream[] = {"cuStreamSynchronize", "cuStreamQuery"};
inline constexpr std::string_view waits_on_event[] = {"cuEventSynchronize", "cuEventQuery"};
inline constexpr std::string_view in_no_graph[] = {"cuGraphLaunch", "cuGraphUpload"};
inline constexpr std::string_view attaches[] = {"cuStreamAttachMemAsync"};

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

template <std::size_t n> constexpr bool all_exist(const LooksAt& entry, const std::string_view (&symbols)[n]) {
    return std::ranges::find(symbols, entry.name, plain_name) != std::end(symbols);
}
template <std::size_t n> constexpr bool looked_at_exist(const std::string_view (&symbols)[n]) {
    return std::ranges::all_of(looks_at, [&](const LooksAt& entry) { return all_exist(entry, symbols); });
}

constexpr InCapture in_captures(std::string_view symbol) {
    return listed(waits, symbol)             ? InCapture::may_wait
           : listed(waits_on_stream, symbol) ? InCapture::waits_on_stream
           : listed(waits_on_event, symbol)  ? InCapture::waits_on_event
           : listed(in_no_graph, symbol)     ? InCapture::in_no_graph
           : listed(attaches, symbol)        ? InCapture::attaches
                                             : InCapture::nothing;
}
constexpr CUresult answer_before_init(std::string_view symbol) {
    if (listed(before_init, symbol)) return CUDA_SUCCESS;
    if (listed(looks_at_handle, symbol)) return CUDA_ERROR_INVALID_HANDLE;
    return listed(looks_at_value, symbol) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
}
static_assert(std::ranges::all_of(looks_at, [](const LooksAt& entry) { return entry.argument < 4; }));
template <std::size_t n> constexpr bool all_look(const std::string_view (&list)[n]) {
    return std::ranges::all_of(list, [](std::string_view name) {
        return std::ranges::find(looks_at, name, &LooksAt::name) != std::end(looks_at);
    });
}
static_assert(all_look(waits_on_stream) && all_look(waits_on_event) && all_look(in_no_graph) && all_look(attaches));

constexpr Rule rule_of(std::string_view symbol) {
    Rule rule{answer_before_init(symbol),
              listed(after_fault, symbol),
              listed(in_child, symbol),
              listed(in_host_function, symbol),
              symbol.ends_with("_ptsz"),
              in_captures(symbol),
              -1,
              WithObject::nothing_else};
    const auto* const entry = std::ranges::find(looks_at, plain_name(symbol), &LooksAt::name);
    if (entry != std::end(looks_at)) {
        rule.object = entry->argument;
        rule.named = entry->named;
    }
    return rule;
}

extern const Rule rules[];  // by the numbers that exports/admission.sh gives to the functions

}  // namespace barcuda::guest::admission

// Why the function may not be called by this thread now, with these first four arguments. CUDA_SUCCESS: it may be;
// `done`: there is nothing to be done.
extern "C" [[gnu::visibility("hidden")]] int barcuda_admit(unsigned function, const std::uint64_t* given) noexcept;
