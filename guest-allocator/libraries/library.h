// SPDX-License-Identifier: Apache-2.0
// library.h: what cuBLAS and cuRAND have in common in the guest. Their functions are rows of the command table, as the
// driver's are, on a context that the runtime layer makes current, as under NVIDIA's libraries.
#pragma once
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/fence.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/runtime/runtime.h"
#include "shm-device/rows/library_commands.h"

// Functions that programs see.
#define BLAS extern "C" [[gnu::visibility("default")]] cublasStatus_t
#define RANDOM extern "C" [[gnu::visibility("default")]] curandStatus_t

namespace barcuda::guest {

// A handle as it travels: a cuBLAS handle with its pointer mode (blas.cc), a generator without our mark (random.cc).
template <class T> T sent(T argument) noexcept { return argument; }
cublasHandle_t sent(cublasHandle_t handle) noexcept;
curandGenerator_t sent(curandGenerator_t generator) noexcept;

// Says, once, what the host lacks.
void explain_missing(Op op) noexcept;

template <Op op, class... Given> CUresult send(Given... given) noexcept {
    if (const CUresult r = runtime::ready(); r != CUDA_SUCCESS) return r;
    const CUresult r = command<op>(given...);
    if (r == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED) [[unlikely]]
        explain_missing(op);
    return r;
}
template <Op op> using ResultOf = typename RowOf<op>::Result;
template <Op op, class... Given> ResultOf<op> ask(Given... given) noexcept {
    return Status<ResultOf<op>>::of(send<op>(sent(given)...));
}

// A function's type with int where it has 64-bit sizes.
template <class F> struct Narrow;
template <class R, class... P> struct Narrow<R(P...)> {
    template <class T> using Of = std::conditional_t<std::is_same_v<T, std::int64_t>, int, T>;
    using type = R(Of<P>...);
};

// Memory of the region in which the GPU, or a library on the host, leaves what it has to say.
class Answer {
  public:
    explicit Answer(std::size_t bytes) noexcept : at_(heap::staging_alloc(bytes)) {}
    ~Answer() { heap::staging_free(at_); }
    Answer(const Answer&) = delete;
    void* get() const noexcept { return at_; }
    void abandon() noexcept { at_ = nullptr; }  // the GPU may still write there

  private:
    void* at_;
};

}  // namespace barcuda::guest
