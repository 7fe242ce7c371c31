// SPDX-License-Identifier: Apache-2.0
// blas.h: the software GPU's cuBLAS: the libcublas.so.13 that the worker opens beside the software driver. Each
// function of shm-device/rows/cublas.h is here, the ones with 64-bit sizes alone where there are two; what is
// missing the worker refuses. The arithmetic is the system's CBLAS, on the device's memory where it lies, as a function
// that the driver calls in the stream's order (cuLaunchHostFunc): so it waits for kernels and copies, they wait for it,
// and graphs can hold it.
#pragma once
#include <cblas.h>
#include <cublas_api.h>
#include <cuda.h>

#include <climits>
#include <cstdint>
#include <functional>

struct cublasContext {
    CUstream stream = nullptr;
    cublasPointerMode_t scalars = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
    cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
    int multiprocessors = 0;
};

#define BLAS extern "C" [[gnu::visibility("default")]] cublasStatus_t

// Whether these bytes are the device's: driver/reach.cc.
extern "C" int barcuda_soft_reaches(CUcontext context, const void* address, std::size_t bytes);

namespace barcuda::soft::blas {

// Work in the handle's stream.
cublasStatus_t enqueue(cublasHandle_t handle, std::function<void()> work);
// The same; its result is awaited if it goes to host memory.
cublasStatus_t answer(cublasHandle_t handle, std::function<void()> work);

// A scalar: its value now, or where it lies when the work runs.
template <class T> class Scalar {
  public:
    Scalar(cublasHandle_t handle, const T* at) {
        if (handle->scalars == CUBLAS_POINTER_MODE_DEVICE) there_ = at;
        else value_ = *at;
    }
    T operator()() const { return there_ ? *there_ : value_; }

  private:
    T value_{};
    const T* there_ = nullptr;
};

inline CBLAS_TRANSPOSE transposed(cublasOperation_t op) { return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; }

// CBLAS ends the process when it gets what it does not like, and counts with ints.
template <class... N> bool countable(N... numbers) { return ((numbers <= INT_MAX && numbers >= -INT_MAX) && ...); }
template <class... N> bool sizes(N... numbers) { return ((numbers >= 0) && ...); }
inline bool leads(std::int64_t ld, std::int64_t rows) { return ld >= (rows > 1 ? rows : 1); }
template <class... O> bool operations(O... all) { return ((all >= CUBLAS_OP_N && all <= CUBLAS_OP_C) && ...); }

// Whether a matrix that an array in device memory names is the device's, from its first to its last column. What is
// named in the call itself the worker has checked, but for null, which may be right where nothing is read. What is not
// there is the context's fault, as when a kernel reads it.
class Reach {
  public:
    Reach() { cuCtxGetCurrent(&context_); }
    template <class... P> bool there(P... at) const { return ((at || barcuda_soft_reaches(context_, at, 1)) && ...); }
    bool operator()(const void* at, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::size_t element) const {
        if (rows == 0 || cols == 0) return true;
        return barcuda_soft_reaches(context_, at, static_cast<std::size_t>((cols - 1) * ld + rows) * element);
    }

  private:
    CUcontext context_ = nullptr;
};

// What an array in device memory names; null where there is no array.
template <class P> P item(P const* array, std::int64_t i) { return array ? array[i] : nullptr; }

// One matrix product; all has been checked, but for where its matrices lie if an array named them.
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
    bool there(const Reach& reach, T alpha) const {
        if (m == 0 || n == 0) return false;
        return reach.there(c) && (k == 0 || alpha == 0 || reach.there(a, b));
    }
    bool in(const Reach& reach, const void* left, std::size_t left_bytes, const void* right, std::size_t right_bytes,
            const void* sum, std::size_t sum_bytes) const {
        const bool at = a_op != CUBLAS_OP_N, bt = b_op != CUBLAS_OP_N;
        return reach(left, at ? k : m, at ? m : k, lda, left_bytes) &&
               reach(right, bt ? n : k, bt ? k : n, ldb, right_bytes) && reach(sum, m, n, ldc, sum_bytes);
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
