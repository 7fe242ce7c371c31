// SPDX-License-Identifier: Apache-2.0
// vectors.cc: vectors, and a matrix with a vector. Empty vectors are no error: there is nothing to do.
#include <cmath>

#include "soft-gpu/blas/blas.h"

using namespace barcuda::soft::blas;

namespace {

// Runs `work` unless the vectors are invalid.
template <class... N> cublasStatus_t over(cublasHandle_t handle, std::function<void()> work, N... numbers) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!countable(numbers...)) return CUBLAS_STATUS_NOT_SUPPORTED;
    return enqueue(handle, std::move(work));
}
// Writes what `value` returns to `result`, unless `value` found an error.
template <class T, class Value, class... N>
cublasStatus_t ask(cublasHandle_t handle, T* result, Value value, N... numbers) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    if (!countable(numbers...)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool host = handle->scalars == CUBLAS_POINTER_MODE_HOST;
    return answer(handle, [=, reach = Reach()] {
        T found{};
        if (value(reach, found) && (host || reach.one(result))) *result = found;
    });
}

template <class T> int least(int n, const T* x, int inc) {
    int found = 0;
    for (int i = 1; i < n; ++i)
        if (std::fabs(x[std::int64_t{i} * inc]) < std::fabs(x[std::int64_t{found} * inc])) found = i;
    return found + 1;
}

}  // namespace

#define VECTORS(T, S, s)                                                                                               \
    BLAS cublas##S##asum_v2_64(cublasHandle_t h, int64_t n, const T* x, int64_t incx, T* result) {                     \
        return ask(                                                                                                    \
            h, result,                                                                                                 \
            [=](const Reach& reach, T& found) {                                                                        \
                if (n < 1 || incx < 1) return true;                                                                    \
                return reach.vector(x, n, incx) && (found = cblas_##s##asum(n, x, incx), true);                        \
            },                                                                                                         \
            n, incx);                                                                                                  \
    }                                                                                                                  \
    BLAS cublas##S##nrm2_v2_64(cublasHandle_t h, int64_t n, const T* x, int64_t incx, T* result) {                     \
        return ask(                                                                                                    \
            h, result,                                                                                                 \
            [=](const Reach& reach, T& found) {                                                                        \
                if (n < 1 || incx < 1) return true;                                                                    \
                return reach.vector(x, n, incx) && (found = cblas_##s##nrm2(n, x, incx), true);                        \
            },                                                                                                         \
            n, incx);                                                                                                  \
    }                                                                                                                  \
    BLAS cublasI##s##amax_v2(cublasHandle_t h, int n, const T* x, int incx, int* result) {                             \
        return ask(h, result, [=](const Reach& reach, int& found) {                                                    \
            if (n < 1 || incx < 1) return true;                                                                        \
            return reach.vector(x, n, incx) && (found = static_cast<int>(cblas_i##s##amax(n, x, incx)) + 1, true);     \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublasI##s##amin_v2(cublasHandle_t h, int n, const T* x, int incx, int* result) {                             \
        return ask(h, result, [=](const Reach& reach, int& found) {                                                    \
            if (n < 1 || incx < 1) return true;                                                                        \
            return reach.vector(x, n, incx) && (found = least(n, x, incx), true);                                      \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##dot_v2_64(cublasHandle_t h, int64_t n, const T* x, int64_t incx, const T* y, int64_t incy,         \
                              T* result) {                                                                             \
        return ask(                                                                                                    \
            h, result,                                                                                                 \
            [=](const Reach& reach, T& found) {                                                                        \
                if (n < 1) return true;                                                                                \
                return reach.vector(x, n, incx) && reach.vector(y, n, incy) &&                                         \
                       (found = cblas_##s##dot(n, x, incx, y, incy), true);                                            \
            },                                                                                                         \
            n, incx, incy);                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##copy_v2_64(cublasHandle_t h, int64_t n, const T* x, int64_t incx, T* y, int64_t incy) {            \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                if (n > 0 && reach.vector(x, n, incx) && reach.vector(y, n, incy))                                     \
                    cblas_##s##copy(n, x, incx, y, incy);                                                              \
            },                                                                                                         \
            n, incx, incy);                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##swap_v2_64(cublasHandle_t h, int64_t n, T* x, int64_t incx, T* y, int64_t incy) {                  \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                if (n > 0 && reach.vector(x, n, incx) && reach.vector(y, n, incy))                                     \
                    cblas_##s##swap(n, x, incx, y, incy);                                                              \
            },                                                                                                         \
            n, incx, incy);                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##axpy_v2_64(cublasHandle_t h, int64_t n, const T* alpha, const T* x, int64_t incx, T* y,            \
                               int64_t incy) {                                                                         \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;                                                                \
        const Scalar a(h, alpha);                                                                                      \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                if (n < 1 || !reach.scalars(a)) return;                                                                \
                const T by = a();                                                                                      \
                if (by != 0 && reach.vector(x, n, incx) && reach.vector(y, n, incy))                                   \
                    cblas_##s##axpy(n, by, x, incx, y, incy);                                                          \
            },                                                                                                         \
            n, incx, incy);                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##scal_v2_64(cublasHandle_t h, int64_t n, const T* alpha, T* x, int64_t incx) {                      \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;                                                                \
        const Scalar a(h, alpha);                                                                                      \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                if (n > 0 && reach.scalars(a) && reach.vector(x, n, incx)) cblas_##s##scal(n, a(), x, incx);           \
            },                                                                                                         \
            n, incx);                                                                                                  \
    }                                                                                                                  \
    BLAS cublas##S##gemv_v2_64(cublasHandle_t h, cublasOperation_t trans, int64_t m, int64_t n, const T* alpha,        \
                               const T* A, int64_t lda, const T* x, int64_t incx, const T* beta, T* y, int64_t incy) { \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        if (!alpha || !beta || !operations(trans) || !sizes(m, n) || !leads(lda, m) || !incx || !incy)                 \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
        const Scalar a(h, alpha), b(h, beta);                                                                          \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                const bool turned = trans != CUBLAS_OP_N;                                                              \
                if (m < 1 || n < 1 || !reach.scalars(a, b)) return;                                                    \
                const T by = a(), keep = b();                                                                          \
                if (reach.vector(y, turned ? n : m, incy) &&                                                           \
                    (by == 0 || (reach.matrix(A, m, n, lda) && reach.vector(x, turned ? m : n, incx))))                \
                    cblas_##s##gemv(CblasColMajor, transposed(trans), m, n, by, A, lda, x, incx, keep, y, incy);       \
            },                                                                                                         \
            m, n, lda, incx, incy);                                                                                    \
    }                                                                                                                  \
    BLAS cublas##S##ger_v2_64(cublasHandle_t h, int64_t m, int64_t n, const T* alpha, const T* x, int64_t incx,        \
                              const T* y, int64_t incy, T* A, int64_t lda) {                                           \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        if (!alpha || !sizes(m, n) || !leads(lda, m) || !incx || !incy) return CUBLAS_STATUS_INVALID_VALUE;            \
        const Scalar a(h, alpha);                                                                                      \
        return over(                                                                                                   \
            h,                                                                                                         \
            [=, reach = Reach()] {                                                                                     \
                if (m < 1 || n < 1 || !reach.scalars(a)) return;                                                       \
                const T by = a();                                                                                      \
                if (by != 0 && reach.vector(x, m, incx) && reach.vector(y, n, incy) && reach.matrix(A, m, n, lda))     \
                    cblas_##s##ger(CblasColMajor, m, n, by, x, incx, y, incy, A, lda);                                 \
            },                                                                                                         \
            m, n, lda, incx, incy);                                                                                    \
    }
VECTORS(float, S, s)
VECTORS(double, D, d)
