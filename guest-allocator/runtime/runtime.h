// SPDX-License-Identifier: Apache-2.0
// runtime.h: what all files of the runtime layer share.
//
//   cuda* (this folder) -> cu* (<cuda.h>: guest-allocator/driver in a guest, or any libcuda)
//
// This is the first step of a call's path. A runtime function is a driver function plus three things that the driver
// does not have: a current device instead of a current context, an error that the thread remembers, and kernels and
// variables named by host addresses. Handles are the driver's own. Most functions are one line of `call(cuSomething,
// arguments...)`: it makes a context current, translates the arguments (`as`), and records the outcome. The files
// follow the chapters of the CUDA manual; context.cc is the current device, error.cc the error, registry.cc the names.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// A function that programs see. The whole library is compiled with hidden visibility; this opens one door.
#define API extern "C" __attribute__((visibility("default"))) cudaError_t

namespace barcuda::runtime {

constexpr int runtime_version = 13000;  // what cudaRuntimeGetVersion answers: the ABI that this layer implements
constexpr int max_devices = 64;  // CUDA_VISIBLE_DEVICES of any machine sold; bounds the table of primary contexts

// ---- the thread ----------------------------------------------------------------------------------------------------
struct Launch {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
};

struct Thread {
    int device = 0;                   // cudaSetDevice's, or that of an adopted primary context
    bool chosen = false;              // it is one of these; else it is the process's to choose (cudaSetValidDevices)
    cudaError_t error = cudaSuccess;  // cudaGetLastError's
    CUcontext bound = nullptr;        // the primary context of `device` if it is current; null under a foreign context
    unsigned resets = 0;              // `resets` below, as of binding
    unsigned depth = 0;               // of `launches`: <<<f()>>> where f itself launches
    Launch launches[4] = {};
};
// Initial-exec: an access is one instruction, where a library's ordinary thread-local is a call, several times a
// launch. The price is room in the static block that late dlopen()s share, so the structure stays small.
extern thread_local constinit Thread thread __attribute__((visibility("hidden"), tls_model("initial-exec")));
static_assert(sizeof(Thread) <= 256);

// ---- the context (context.cc) --------------------------------------------------------------------------------------
extern std::atomic<unsigned> resets;  // counts cudaDeviceReset: a primary context bound before the last one is dead

CUresult init();                                   // cuInit, once
CUresult bind();                                   // the slow path of ready()
CUresult primary(int device, CUcontext* context);  // retains it at first use
int device_count();                                // 0 if there is none, or no driver
int known_device_count();                          // 0 if the driver was not initialized here, nor in the parent
bool exiting();  // main has returned: the driver may be gone, and nothing need be released

// Makes sure that a context is current: the program's own (driver API) if it set one, else the device's primary one.
inline CUresult ready() {
    CUcontext current = nullptr;
    if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr && current == thread.bound &&
        thread.resets == resets.load(std::memory_order_acquire)) [[likely]]
        return CUDA_SUCCESS;
    return bind();
}

// ---- the error (error.cc) ------------------------------------------------------------------------------------------
cudaError_t translate(CUresult result);  // the values coincide; what the runtime has no name for is cudaErrorUnknown

// A failure: the thread remembers it, and it is logged where that was asked for (log.h).
cudaError_t fail(cudaError_t error, const char* function);
cudaError_t fail(CUresult result, const void* function);  // the driver's

// cudaErrorNotReady answers a question, it is not a failure; the thread does not remember it.
inline cudaError_t record(cudaError_t error, const char* function = __builtin_FUNCTION()) {
    return error == cudaSuccess || error == cudaErrorNotReady ? error : fail(error, function);
}
inline cudaError_t record(CUresult result, const char* function = __builtin_FUNCTION()) {
    return result == CUDA_SUCCESS ? cudaSuccess : record(translate(result), function);
}

// ---- argument translation ------------------------------------------------------------------------------------------
// Runtime types and driver types that differ only in their names. The size is checked here; that the members
// agree is checked by tests/unit/runtime/runtime_layout_test.cc.
template <class Runtime, class Driver> inline constexpr bool same_thing = false;
#define SAME_THING(Runtime, Driver)                   \
    static_assert(sizeof(Runtime) == sizeof(Driver)); \
    template <> inline constexpr bool same_thing<Runtime, Driver> = true
#define SAME_HANDLE(Runtime, Driver) template <> inline constexpr bool same_thing<Runtime, Driver> = true

SAME_HANDLE(cudaArray_t, CUarray);
SAME_HANDLE(cudaMipmappedArray_t, CUmipmappedArray);
SAME_HANDLE(void*, CUdeviceptr);
SAME_HANDLE(cudaExternalMemory_t, CUexternalMemory);
SAME_HANDLE(cudaExternalSemaphore_t, CUexternalSemaphore);
SAME_HANDLE(cudaGraphicsResource_t, CUgraphicsResource);
SAME_HANDLE(cudaAsyncCallbackHandle_t, CUasyncCallbackHandle);
SAME_THING(unsigned long long, cuuint64_t);
SAME_THING(cudaMemLocation, CUmemLocation);
SAME_THING(cudaMemAccessDesc, CUmemAccessDesc);
SAME_THING(cudaMemPoolProps, CUmemPoolProps);
SAME_THING(cudaMemPoolPtrExportData, CUmemPoolPtrExportData);
SAME_THING(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_THING(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_THING(cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_THING(cudaGraphEdgeData, CUgraphEdgeData);
SAME_THING(cudaLaunchAttribute, CUlaunchAttribute);
SAME_THING(cudaLaunchAttributeValue, CUlaunchAttributeValue);
SAME_THING(cudaIpcEventHandle_t, CUipcEventHandle);
SAME_THING(cudaIpcMemHandle_t, CUipcMemHandle);
SAME_THING(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES);
SAME_THING(cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS);
SAME_THING(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC);
SAME_THING(cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_THING(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);
SAME_THING(cudaExternalSemaphoreSignalNodeParams, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
SAME_THING(cudaExternalSemaphoreWaitNodeParams, CUDA_EXT_SEM_WAIT_NODE_PARAMS);
SAME_THING(cudaExternalMemoryHandleDesc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
SAME_THING(cudaExternalSemaphoreHandleDesc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
SAME_THING(cudaExternalSemaphoreSignalParams, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
SAME_THING(cudaExternalSemaphoreWaitParams, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS);
#undef SAME_THING
#undef SAME_HANDLE

template <class To, class From> constexpr bool same_pointee() {
    using T = std::remove_cv_t<std::remove_pointer_t<To>>;
    using F = std::remove_cv_t<std::remove_pointer_t<From>>;
    if constexpr (std::is_enum_v<T> && std::is_enum_v<F>) return sizeof(T) == sizeof(F);
    return std::is_same_v<T, F> || same_thing<F, T>;
}

// `from` as the driver's parameter of type To. What is not listed above does not compile.
template <class To, class From> To as(From from) {
    if constexpr (std::is_convertible_v<From, To>) {
        return from;
    } else if constexpr (std::is_enum_v<To>) {
        return static_cast<To>(from);
    } else if constexpr (std::is_pointer_v<From> && std::is_same_v<To, CUdeviceptr>) {
        return reinterpret_cast<CUdeviceptr>(from);
    } else if constexpr (std::is_pointer_v<From> && std::is_pointer_v<To>) {
        using Bare = std::remove_cv_t<From>;
        static_assert(same_thing<Bare, std::remove_cv_t<To>> || same_pointee<To, From>(), "not the same thing");
        return (To)(from);  // may drop const: the driver's prototypes forget it where the runtime's do not
    } else {
        static_assert(same_thing<From, To>, "not the same thing");
        return __builtin_bit_cast(To, from);
    }
}

// ---- calls ---------------------------------------------------------------------------------------------------------
// A driver function that needs a current context.
template <class... P, class... A> inline cudaError_t call(CUresult (*function)(P...), A... arguments) {
    CUresult result = ready();
    if (result == CUDA_SUCCESS) [[likely]]
        result = function(as<P>(arguments)...);
    return result == CUDA_SUCCESS ? cudaSuccess : fail(result, reinterpret_cast<const void*>(function));
}

// A driver function that needs the driver, but no context: questions about devices.
template <class... P, class... A> inline cudaError_t ask(CUresult (*function)(P...), A... arguments) {
    CUresult result = init();
    if (result == CUDA_SUCCESS) [[likely]]
        result = function(as<P>(arguments)...);
    return result == CUDA_SUCCESS ? cudaSuccess : fail(result, reinterpret_cast<const void*>(function));
}

}  // namespace barcuda::runtime
