// SPDX-License-Identifier: Apache-2.0
// blas.cc: cuBLAS. The functions themselves are rows (shm-device/rows/cublas.h); what the guest knows of a handle
// is its stream and where its scalars lie. Results that a program wants in host memory are written by the GPU to a
// place in the region and waited for here, with a fence, as all waits are: the worker never waits for a GPU.
#include <cstdio>
#include <string>

#include "guest-allocator/client/exports.h"
#include "guest-allocator/client/id_table.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/libraries/library.h"

namespace barcuda::guest {
namespace {

struct HandleState {  // of a handle, by its id; zero: there is none
    std::atomic<std::uint32_t> alive;
    std::atomic<std::uint32_t> device;  // scalars and results lie in device memory
    std::atomic<CUstream> stream;
};
IdTable<HandleState> states;

HandleState* state_of(cublasHandle_t handle) noexcept {
    const auto id = reinterpret_cast<std::uint64_t>(handle);
    HandleState* s = id && id < wire::most_ids ? states.at(id) : nullptr;
    return s && s->alive.load(std::memory_order_acquire) ? s : nullptr;
}
cublasHandle_t with_mode(cublasHandle_t handle, bool device) {
    return reinterpret_cast<cublasHandle_t>(reinterpret_cast<std::uint64_t>(handle) |
                                            (device ? kind::blas::device_bit : 0));
}

// The library on the host remembers the driver's stream, and would give work to what is gone.
bool stream_is_gone(const HandleState& state) {
    const CUstream stream = state.stream.load(std::memory_order_relaxed);
    return reinterpret_cast<std::uintptr_t>(stream) > 2 && !context_of(stream);
}

// A result in host memory.
template <Op op, class T, class... Before> CUresult await(HandleState& state, T* result, Before... before) noexcept {
    const CUstream stream = state.stream.load(std::memory_order_relaxed);
    if (!result) return CUDA_ERROR_INVALID_VALUE;
    if (capturing(stream)) return CUDA_ERROR_NOT_SUPPORTED;  // it would be known when the graph has run
    Answer answer(sizeof(T));
    if (!answer.get()) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(answer.get(), 0, sizeof(T));  // the sum of nothing, where a library does not care to write that
    CUresult r = send<op>(before..., static_cast<T*>(answer.get()));
    if (r != CUDA_SUCCESS) return r;
    if (r = wait_for(stream); r == CUDA_SUCCESS) std::memcpy(result, answer.get(), sizeof(T));
    else if (Client::current()->ended() != CUDA_SUCCESS) answer.abandon();
    return r;
}

template <Op op> constexpr bool answers = [] {
    using P = typename RowOf<op>::Parameters;
    return requires { std::tuple_element_t<RowOf<op>::count - 1, P>::answers; };
}();

template <Op op, class Prototype> struct Stub;
template <Op op, class... P> struct Stub<op, cublasStatus_t(P...)> {
    static cublasStatus_t function(P... given) {
        if constexpr (RowOf<op>::how == How::post) {  // what runs on the GPU
            const HandleState* s = state_of(std::get<0>(std::tuple(given...)));
            if (s && stream_is_gone(*s)) return CUBLAS_STATUS_EXECUTION_FAILED;
        }
        if constexpr (answers<op>) {
            const std::tuple all(given...);
            HandleState* s = state_of(std::get<0>(all));
            if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
            if (!s->device.load(std::memory_order_relaxed)) return [&]<std::size_t... I>(std::index_sequence<I...>) {
                    return Status<cublasStatus_t>::of(await<op>(*s, std::get<sizeof...(P) - 1>(all),
                                                                with_mode(std::get<0>(all), true),
                                                                std::get<I + 1>(all)...));
                }
            (std::make_index_sequence<sizeof...(P) - 2>{});
        }
        return ask<op>(given...);
    }
};
// With int sizes: what its twin with 64-bit sizes does.
template <Op op, class Prototype, class Twin> struct Narrowed;
template <Op op, class... P, class Twin> struct Narrowed<op, cublasStatus_t(P...), Twin> {
    static cublasStatus_t function(P... given) { return Stub<op, Twin>::function(given...); }
};

}  // namespace

cublasHandle_t sent(cublasHandle_t handle) noexcept {
    const HandleState* s = state_of(handle);
    return s ? with_mode(handle, s->device.load(std::memory_order_relaxed)) : nullptr;
}

void explain_missing(Op op) noexcept {
    static std::atomic_flag told[std::size(math_libraries)];
    const MathLibrary& library = *library_of(op);
    if (told[&library - math_libraries].test_and_set()) return;
    std::fprintf(
        stderr,
        "barcuda: %s: barcuda-bridge found no %s for this device: install NVIDIA's %s on the host (a CUDA toolkit "
        "has it)%s%s\n",
        std::string(op_names[static_cast<std::size_t>(op)]).c_str(), library.sonames[0], library.title,
        library.software ? "; the software GPU needs " : "", library.software ? library.software : "");
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

BLAS cublasCreate_v2(cublasHandle_t* handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    cublasHandle_t fresh = nullptr;
    if (const CUresult r = send<Op::cublasCreate_v2>(&fresh); r != CUDA_SUCCESS) return Status<cublasStatus_t>::of(r);
    HandleState* s = states.of(fresh);
    if (!s) {
        send<Op::cublasDestroy_v2>(fresh);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    s->device.store(false, std::memory_order_relaxed);
    s->stream.store(nullptr, std::memory_order_relaxed);
    s->alive.store(true, std::memory_order_release);
    *handle = fresh;
    return CUBLAS_STATUS_SUCCESS;
}

// To destroy a handle waits for its work. The guest does that, not the worker.
BLAS cublasDestroy_v2(cublasHandle_t handle) {
    HandleState* s = state_of(handle);
    if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (runtime::ready() == CUDA_SUCCESS) wait_for_streams(current_context(), false);
    s->alive.store(false, std::memory_order_release);
    return Status<cublasStatus_t>::of(send<Op::cublasDestroy_v2>(handle));
}

BLAS cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    HandleState* s = state_of(handle);
    if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
    const cublasStatus_t r = ask<Op::cublasSetStream_v2>(handle, stream);
    if (r == CUBLAS_STATUS_SUCCESS) s->stream.store(stream, std::memory_order_relaxed);
    return r;
}
BLAS cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
    const HandleState* s = state_of(handle);
    if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
    *stream = s->stream.load(std::memory_order_relaxed);
    return CUBLAS_STATUS_SUCCESS;
}

BLAS cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
    HandleState* s = state_of(handle);
    if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_INVALID_VALUE;
    s->device.store(mode == CUBLAS_POINTER_MODE_DEVICE, std::memory_order_relaxed);
    return CUBLAS_STATUS_SUCCESS;
}
BLAS cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
    const HandleState* s = state_of(handle);
    if (!s) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
    *mode = s->device.load(std::memory_order_relaxed) ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST;
    return CUBLAS_STATUS_SUCCESS;
}

extern "C" [[gnu::visibility("default")]] std::size_t cublasGetCudartVersion() { return runtime::runtime_version; }

#define TEXTS(X)                                                                         \
    X(CUBLAS_STATUS_SUCCESS, "success")                                                  \
    X(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")                  \
    X(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")                      \
    X(CUBLAS_STATUS_INVALID_VALUE, "an invalid value was used as an argument")           \
    X(CUBLAS_STATUS_ARCH_MISMATCH, "an absent device architectural feature is required") \
    X(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed")               \
    X(CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute")               \
    X(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")                      \
    X(CUBLAS_STATUS_NOT_SUPPORTED, "the requested functionality is not supported")       \
    X(CUBLAS_STATUS_LICENSE_ERROR, "the functionality requires a license")
extern "C" [[gnu::visibility("default")]] const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define X(code, text) \
    case code: return #code;
        TEXTS(X)
#undef X
    }
    return "unknown cuBLAS status";
}
extern "C" [[gnu::visibility("default")]] const char* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
#define X(code, text) \
    case code: return text;
        TEXTS(X)
#undef X
    }
    return "unknown cuBLAS status";
}

// ---- the rest: rows and nothing else
#define EXPORT(name) \
    EXPORT_AS(name, decltype(::name), barcuda::guest::Stub<barcuda::Op::name, decltype(::name)>::function)
BARCUDA_CUBLAS_ROWS(EXPORT_ROW)
#undef EXPORT
// Those with a twin that takes 64-bit sizes.
#define EXPORT(name)                                                                                                \
    using TypeOf_##name##_64 = decltype(::name##_64);                                                               \
    using TypeOf_##name = barcuda::guest::Narrow<TypeOf_##name##_64>::type;                                         \
    EXPORT_AS(name##_64, TypeOf_##name##_64, barcuda::guest::Stub<barcuda::Op::name, TypeOf_##name##_64>::function) \
    EXPORT_AS(name, TypeOf_##name,                                                                                  \
              barcuda::guest::Narrowed<barcuda::Op::name, TypeOf_##name, TypeOf_##name##_64>::function)
BARCUDA_CUBLAS_WIDE_ROWS(EXPORT_ROW)
