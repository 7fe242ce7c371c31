// SPDX-License-Identifier: Apache-2.0
// blas.h: the software GPU's cuBLAS: the libcublas.so.13 that the worker opens beside the software driver. It has each
// function of shm-device/rows/cublas.h; of two versions only the one with 64-bit sizes. The worker refuses what is
// missing. The arithmetic is the system's CBLAS, directly on device memory, in a function that the driver calls in the
// stream's order (cuLaunchHostFunc). So it waits for kernels and copies, they wait for it, and graphs can contain it.
#pragma once
#include <cblas.h>
#include <cublas_api.h>
#include <cuda.h>

#include <climits>
#include <cstdint>
#include <functional>
#include <type_traits>

struct cublasContext {
    CUstream stream = nullptr;
    cublasPointerMode_t scalars = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
    int multiprocessors = 0;
};

#define BLAS extern "C" [[gnu::visibility("default")]] cublasStatus_t

// Whether the device may read or write these bytes, and whether elements may be at that address: driver/reach.cc.
extern "C" int barcuda_soft_reaches(CUcontext context, const void* address, std::size_t bytes, std::size_t alignment,
                                    int writes);

namespace barcuda::soft::blas {

// Work in the handle's stream.
cublasStatus_t enqueue(cublasHandle_t handle, std::function<void()> work);
// The same; if the result goes to host memory, waits for it.
cublasStatus_t answer(cublasHandle_t handle, std::function<void()> work);

// Whether operands belong to the device when the work runs, from their first element to their last: an array in device
// memory may have named them, or the memory or the right to it may have ended since the call. Access to anything else
// is a fault of the context, as when a kernel reads it. Operands that are not const are written.
class Reach {
  public:
    Reach() { cuCtxGetCurrent(&context_); }
    template <class T> bool elements(T* at, __int128 count) const {
        using Element = std::conditional_t<std::is_void_v<T>, char, T>;
        constexpr __int128 most = std::size_t{1} << 62;
        const __int128 bytes = count * static_cast<__int128>(sizeof(Element));
        return barcuda_soft_reaches(context_, at, static_cast<std::size_t>(bytes > most ? most : bytes),
                                    alignof(Element), !std::is_const_v<T>) != 0;
    }
    template <class T> bool one(T* at) const { return elements(at, 1); }
    template <class T> bool vector(T* at, std::int64_t n, std::int64_t inc) const {
        return n < 1 || elements(at, __int128{n - 1} * (inc < 0 ? -inc : inc) + 1);
    }
    template <class T> bool matrix(T* at, std::int64_t rows, std::int64_t cols, std::int64_t ld) const {
        return rows < 1 || cols < 1 || elements(at, __int128{cols - 1} * ld + rows);
    }
    template <class... S> bool scalars(const S&... all) const { return (all.in(*this) && ...); }

  private:
    CUcontext context_ = nullptr;
};

// A scalar: its value now, or its address when the work runs. The work reads it once, because a kernel may change it
// meanwhile.
template <class T> class Scalar {
  public:
    Scalar(cublasHandle_t handle, const T* at) {
        if (handle->scalars == CUBLAS_POINTER_MODE_DEVICE) there_ = at;
        else value_ = *at;
    }
    T operator()() const { return there_ ? *there_ : value_; }
    bool in(const Reach& reach) const { return !there_ || reach.one(there_); }

  private:
    T value_{};
    const T* there_ = nullptr;
};

inline CBLAS_TRANSPOSE transposed(cublasOperation_t op) { return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }

// CBLAS ends the process when its arguments are invalid, and counts with ints.
template <class... N> bool countable(N... numbers) { return ((numbers <= INT_MAX && numbers >= -INT_MAX) && ...); }
template <class... N> bool sizes(N... numbers) { return ((numbers >= 0) && ...); }
inline bool leads(std::int64_t ld, std::int64_t rows) { return ld >= (rows > 1 ? rows : 1); }
template <class... O> bool operations(O... all) { return ((all >= CUBLAS_OP_N && all <= CUBLAS_OP_C) && ...); }

// An entry of an array in device memory; null, which is never valid, if there is no array.
template <class P> P item(const Reach& reach, P const* array, std::int64_t i) {
    return array && reach.one(array + i) ? array[i] : nullptr;
}
// A distance from the first one. Without an array any address will do.
template <class T> T* step(T* first, std::int64_t i, std::int64_t stride) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(first) +
                                static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(stride) * sizeof(T));
}

// One matrix product. Everything has been checked, except where the matrices are if an array named them.
template <class T> struct Gemm {
    cublasOperation_t a_op, b_op;
    int m, n, k;
    const T* a;
    int lda;
    const T* b;
    int ldb;
    T* c;
    int ldc;
    void operator()(T alpha, T beta) const;
    // `alpha` 0: neither a nor b is read.
    bool in(const Reach& reach, T alpha) const {
        const bool at = a_op != CUBLAS_OP_N, bt = b_op != CUBLAS_OP_N;
        return m > 0 && n > 0 && reach.matrix(c, m, n, ldc) &&
               (alpha == 0 ||
                (reach.matrix(a, at ? k : m, at ? m : k, lda) && reach.matrix(b, bt ? n : k, bt ? k : n, ldb)));
    }
};
inline cublasStatus_t judge(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, std::int64_t m,
                            std::int64_t n, std::int64_t k, std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!operations(a, b) || !sizes(m, n, k)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!leads(lda, a == CUBLAS_OP_N ? m : k) || !leads(ldb, b == CUBLAS_OP_N ? k : n) || !leads(ldc, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    return countable(m, n, k, lda, ldb, ldc) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace barcuda::soft::blas
