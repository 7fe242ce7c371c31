// SPDX-License-Identifier: Apache-2.0
// blas_copy.cc: cuBLAS's copies between host and device: vectors are rows of one element, matrices rows of one column.
#include <cublas_api.h>

#include "guest-allocator/libraries/library.h"

namespace {

// `count` pieces of `bytes`, `from_step` and `to_step` bytes apart.
cublasStatus_t copy(void* to, std::size_t to_step, const void* from, std::size_t from_step, std::size_t bytes,
                    std::size_t count, cudaMemcpyKind kind, const cudaStream_t* stream) {
    if (bytes == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
    if (to_step < bytes || from_step < bytes) return CUBLAS_STATUS_INVALID_VALUE;
    cudaError_t error;
    if (to_step == bytes && from_step == bytes)
        error = stream ? cudaMemcpyAsync(to, from, bytes * count, kind, *stream)
                       : cudaMemcpy(to, from, bytes * count, kind);
    else
        error = stream ? cudaMemcpy2DAsync(to, to_step, from, from_step, bytes, count, kind, *stream)
                       : cudaMemcpy2D(to, to_step, from, from_step, bytes, count, kind);
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

cublasStatus_t vector(std::int64_t n, std::int64_t size, const void* x, std::int64_t incx, void* y, std::int64_t incy,
                      cudaMemcpyKind kind, const cudaStream_t* stream = nullptr) {
    if (size <= 0 || incx <= 0 || incy <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (n <= 0) return CUBLAS_STATUS_SUCCESS;
    return copy(y, incy * size, x, incx * size, size, n, kind, stream);
}
cublasStatus_t matrix(std::int64_t rows, std::int64_t cols, std::int64_t size, const void* a, std::int64_t lda, void* b,
                      std::int64_t ldb, cudaMemcpyKind kind, const cudaStream_t* stream = nullptr) {
    if (rows < 0 || cols < 0 || size <= 0 || lda <= 0 || ldb <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    return copy(b, ldb * size, a, lda * size, rows * size, cols, kind, stream);
}

}  // namespace

#define COPIES(name, suffix, Int, kind)                                                                            \
    BLAS cublas##name##Vector##suffix(Int n, Int size, const void* x, Int incx, void* y, Int incy) {               \
        return vector(n, size, x, incx, y, incy, kind);                                                            \
    }                                                                                                              \
    BLAS cublas##name##VectorAsync##suffix(Int n, Int size, const void* x, Int incx, void* y, Int incy,            \
                                           cudaStream_t stream) {                                                  \
        return vector(n, size, x, incx, y, incy, kind, &stream);                                                   \
    }                                                                                                              \
    BLAS cublas##name##Matrix##suffix(Int rows, Int cols, Int size, const void* a, Int lda, void* b, Int ldb) {    \
        return matrix(rows, cols, size, a, lda, b, ldb, kind);                                                     \
    }                                                                                                              \
    BLAS cublas##name##MatrixAsync##suffix(Int rows, Int cols, Int size, const void* a, Int lda, void* b, Int ldb, \
                                           cudaStream_t stream) {                                                  \
        return matrix(rows, cols, size, a, lda, b, ldb, kind, &stream);                                            \
    }
COPIES(Set, , int, cudaMemcpyHostToDevice)
COPIES(Set, _64, int64_t, cudaMemcpyHostToDevice)
COPIES(Get, , int, cudaMemcpyDeviceToHost)
COPIES(Get, _64, int64_t, cudaMemcpyDeviceToHost)
