// SPDX-License-Identifier: Apache-2.0
// matrices.cc: products of matrices: one, many, and of types other than float and double.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "soft-gpu/blas/blas.h"

namespace barcuda::soft::blas {

// `alpha` 0: neither a nor b was checked (Gemm::in), but OpenBLAS would read them.
template <> void Gemm<float>::operator()(float alpha, float beta) const {
    cblas_sgemm(CblasColMajor, transposed(a_op), transposed(b_op), m, n, alpha == 0 ? 0 : k, alpha, a, lda, b, ldb,
                beta, c, ldc);
}
template <> void Gemm<double>::operator()(double alpha, double beta) const {
    cblas_dgemm(CblasColMajor, transposed(a_op), transposed(b_op), m, n, alpha == 0 ? 0 : k, alpha, a, lda, b, ldb,
                beta, c, ldc);
}

namespace {

// Converts a matrix of another type to float and back.
struct Other {
    cudaDataType type;
    bool known() const { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }
    std::size_t bytes() const { return type == CUDA_R_32F ? 4 : 2; }
    float get(const void* at, std::int64_t i) const {
        switch (type) {
            case CUDA_R_16F: return __half2float(static_cast<const __half*>(at)[i]);
            case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
            default: return static_cast<const float*>(at)[i];
        }
    }
    void put(void* at, std::int64_t i, float value) const {
        switch (type) {
            case CUDA_R_16F: static_cast<__half*>(at)[i] = __float2half(value); break;
            case CUDA_R_16BF: static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16(value); break;
            default: static_cast<float*>(at)[i] = value;
        }
    }
    std::vector<float> all(const void* at, int rows, int cols, int ld) const {
        std::vector<float> dense(std::size_t(rows) * cols);
        for (int col = 0; col < cols; ++col)
            for (int row = 0; row < rows; ++row)
                dense[std::size_t(col) * rows + row] = get(at, std::int64_t{col} * ld + row);
        return dense;
    }
    template <class Void> bool in(const Reach& reach, Void* at, int rows, int cols, int ld) const {
        using Narrow = std::conditional_t<std::is_const_v<Void>, const std::uint16_t, std::uint16_t>;
        using Wide = std::conditional_t<std::is_const_v<Void>, const float, float>;
        return bytes() == 4 ? reach.matrix(static_cast<Wide*>(at), rows, cols, ld)
                            : reach.matrix(static_cast<Narrow*>(at), rows, cols, ld);
    }
};

// The product of matrices of such types, computed with floats.
void multiply(const Gemm<float>& shape, const void* a, Other a_type, const void* b, Other b_type, void* c, Other c_type,
              float alpha, float beta) {
    const auto [m, n, k] = std::tuple(shape.m, shape.n, shape.k);
    const bool at = shape.a_op != CUBLAS_OP_N, bt = shape.b_op != CUBLAS_OP_N;
    if (m == 0 || n == 0) return;
    const bool used = alpha != 0 && k != 0;
    const auto left = used ? a_type.all(a, at ? k : m, at ? m : k, shape.lda) : std::vector<float>(std::size_t(m) * k);
    const auto right = used ? b_type.all(b, bt ? n : k, bt ? k : n, shape.ldb) : std::vector<float>(std::size_t(k) * n);
    auto sum = beta != 0 ? c_type.all(c, m, n, shape.ldc) : std::vector<float>(std::size_t(m) * n);
    const auto one_at_least = [](int rows) { return rows > 1 ? rows : 1; };
    Gemm<float>{
        shape.a_op, shape.b_op, m, n, k, left.data(), one_at_least(at ? k : m), right.data(), one_at_least(bt ? n : k),
        sum.data(), m}(alpha, beta);
    for (int col = 0; col < n; ++col)
        for (int row = 0; row < m; ++row)
            c_type.put(c, std::int64_t{col} * shape.ldc + row, sum[std::size_t(col) * m + row]);
}

// The solution when the right-hand side is multiplied by 0; the triangle is not read.
template <class T> void clear(T* at, std::int64_t rows, std::int64_t cols, std::int64_t ld) {
    for (std::int64_t col = 0; col < cols; ++col) std::fill_n(at + col * ld, rows, T{});
}

// A = P L U in place, as LAPACK's getrf: pivots count from 1, none where there is no room for them. Returns the first
// column whose pivot is zero, or 0.
template <class T> int factor(int n, T* a, std::int64_t ld, int* pivots) {
    int singular = 0;
    for (int j = 0; j < n; ++j) {
        T* const column = a + j * ld;
        int best = j;
        for (int i = j + 1; pivots && i < n; ++i)
            if (std::fabs(column[i]) > std::fabs(column[best])) best = i;
        if (pivots) pivots[j] = best + 1;
        for (int k = 0; best != j && k < n; ++k) std::swap(a[j + k * ld], a[best + k * ld]);
        if (column[j] == 0) {
            if (!singular) singular = j + 1;
            continue;
        }
        for (int i = j + 1; i < n; ++i) column[i] /= column[j];
        for (int k = j + 1; k < n; ++k)
            for (int i = j + 1; i < n; ++i) a[i + k * ld] -= column[i] * a[j + k * ld];
    }
    return singular;
}

}  // namespace
}  // namespace barcuda::soft::blas

using namespace barcuda::soft::blas;

#define FACTORS(T, S)                                                                                                 \
    BLAS cublas##S##getrfBatched(cublasHandle_t h, int n, T* const A[], int lda, int* pivots, int* info, int count) { \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                 \
        if (!sizes(n, count) || !leads(lda, n)) return CUBLAS_STATUS_INVALID_VALUE;                                   \
        return enqueue(h, [=, reach = Reach()] {                                                                      \
            for (std::int64_t i = 0; i < count; ++i)                                                                  \
                if (T* const a = item(reach, A, i); reach.matrix(a, n, n, lda) && reach.one(info + i) &&              \
                                                    (!pivots || reach.vector(pivots + i * n, n, 1)))                  \
                    info[i] = factor(n, a, lda, pivots ? pivots + i * n : nullptr);                                   \
        });                                                                                                           \
    }
FACTORS(float, S)
FACTORS(double, D)

#define MATRICES(T, S, s)                                                                                              \
    BLAS cublas##S##gemm_v2_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n,     \
                               int64_t k, const T* alpha, const T* A, int64_t lda, const T* B, int64_t ldb,            \
                               const T* beta, T* C, int64_t ldc) {                                                     \
        if (cublasStatus_t wrong = judge(h, ta, tb, m, n, k, lda, ldb, ldc)) return wrong;                             \
        if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;                                                       \
        const Scalar a(h, alpha), b(h, beta);                                                                          \
        const Gemm<T> product{ta, tb, int(m), int(n), int(k), A, int(lda), B, int(ldb), C, int(ldc)};                  \
        return enqueue(h, [=, reach = Reach()] {                                                                       \
            if (!reach.scalars(a, b)) return;                                                                          \
            const T by = a(), keep = b();                                                                              \
            if (product.in(reach, by)) product(by, keep);                                                              \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##gemmBatched_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, \
                                   int64_t k, const T* alpha, const T* const A[], int64_t lda, const T* const B[],     \
                                   int64_t ldb, const T* beta, T* const C[], int64_t ldc, int64_t count) {             \
        if (cublasStatus_t wrong = judge(h, ta, tb, m, n, k, lda, ldb, ldc)) return wrong;                             \
        if (!alpha || !beta || count < 0) return CUBLAS_STATUS_INVALID_VALUE;                                          \
        const Scalar a(h, alpha), b(h, beta);                                                                          \
        return enqueue(h, [=, reach = Reach()] {                                                                       \
            if (count == 0 || !reach.scalars(a, b)) return;                                                            \
            const T by = a(), keep = b();                                                                              \
            for (int64_t i = 0; i < count; ++i) {                                                                      \
                const Gemm<T> one{ta,       tb,                                                                        \
                                  int(m),   int(n),                                                                    \
                                  int(k),   item(reach, A, i),                                                         \
                                  int(lda), item(reach, B, i),                                                         \
                                  int(ldb), item(reach, C, i),                                                         \
                                  int(ldc)};                                                                           \
                if (one.in(reach, by)) one(by, keep);                                                                  \
            }                                                                                                          \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##gemmStridedBatched_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m,     \
                                          int64_t n, int64_t k, const T* alpha, const T* A, int64_t lda,               \
                                          long long stride_a, const T* B, int64_t ldb, long long stride_b,             \
                                          const T* beta, T* C, int64_t ldc, long long stride_c, int64_t count) {       \
        if (cublasStatus_t wrong = judge(h, ta, tb, m, n, k, lda, ldb, ldc)) return wrong;                             \
        if (!alpha || !beta || count < 0) return CUBLAS_STATUS_INVALID_VALUE;                                          \
        const Scalar a(h, alpha), b(h, beta);                                                                          \
        return enqueue(h, [=, reach = Reach()] {                                                                       \
            if (count == 0 || !reach.scalars(a, b)) return;                                                            \
            const T by = a(), keep = b();                                                                              \
            for (int64_t i = 0; i < count; ++i) {                                                                      \
                const Gemm<T> one{ta,       tb,                                                                        \
                                  int(m),   int(n),                                                                    \
                                  int(k),   step(A, i, stride_a),                                                      \
                                  int(lda), step(B, i, stride_b),                                                      \
                                  int(ldb), step(C, i, stride_c),                                                      \
                                  int(ldc)};                                                                           \
                if (!one.in(reach, by)) return;                                                                        \
                one(by, keep);                                                                                         \
            }                                                                                                          \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##trsmBatched_64(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,                     \
                                   cublasOperation_t trans, cublasDiagType_t diag, int64_t m, int64_t n,               \
                                   const T* alpha, const T* const A[], int64_t lda, T* const B[], int64_t ldb,         \
                                   int64_t count) {                                                                    \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        const bool left = side == CUBLAS_SIDE_LEFT;                                                                    \
        if (!alpha || !operations(trans) || !sizes(m, n, count) || !leads(lda, left ? m : n) || !leads(ldb, m))        \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
        if (!countable(m, n, lda, ldb)) return CUBLAS_STATUS_NOT_SUPPORTED;                                            \
        const Scalar a(h, alpha);                                                                                      \
        return enqueue(h, [=, reach = Reach()] {                                                                       \
            if (count == 0 || m < 1 || n < 1 || !reach.scalars(a)) return;                                             \
            const T by = a();                                                                                          \
            for (int64_t i = 0; i < count; ++i) {                                                                      \
                const T* const triangle = item(reach, A, i);                                                           \
                T* const others = item(reach, B, i);                                                                   \
                if (!reach.matrix(others, m, n, ldb)) continue;                                                        \
                if (by == 0) clear(others, m, n, ldb);                                                                 \
                else if (reach.matrix(triangle, left ? m : n, left ? m : n, lda))                                      \
                    cblas_##s##trsm(CblasColMajor, left ? CblasLeft : CblasRight,                                      \
                                    fill == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper, transposed(trans),       \
                                    diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, m, n, by, triangle, lda,      \
                                    others, ldb);                                                                      \
            }                                                                                                          \
        });                                                                                                            \
    }                                                                                                                  \
    BLAS cublas##S##trsm_v2_64(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill,                         \
                               cublasOperation_t trans, cublasDiagType_t diag, int64_t m, int64_t n, const T* alpha,   \
                               const T* A, int64_t lda, T* B, int64_t ldb) {                                           \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                                                  \
        const bool left = side == CUBLAS_SIDE_LEFT;                                                                    \
        if (!alpha || !operations(trans) || !sizes(m, n) || !leads(lda, left ? m : n) || !leads(ldb, m))               \
            return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
        if (!countable(m, n, lda, ldb)) return CUBLAS_STATUS_NOT_SUPPORTED;                                            \
        const Scalar a(h, alpha);                                                                                      \
        return enqueue(h, [=, reach = Reach()] {                                                                       \
            if (m < 1 || n < 1 || !reach.scalars(a) || !reach.matrix(B, m, n, ldb)) return;                            \
            const T by = a();                                                                                          \
            if (by == 0) clear(B, m, n, ldb);                                                                          \
            else if (reach.matrix(A, left ? m : n, left ? m : n, lda))                                                 \
                cblas_##s##trsm(CblasColMajor, left ? CblasLeft : CblasRight,                                          \
                                fill == CUBLAS_FILL_MODE_LOWER ? CblasLower : CblasUpper, transposed(trans),           \
                                diag == CUBLAS_DIAG_UNIT ? CblasUnit : CblasNonUnit, m, n, by, A, lda, B, ldb);        \
        });                                                                                                            \
    }
MATRICES(float, S, s)
MATRICES(double, D, d)

namespace {

// `count` products of matrices of any known types; `a`, `b` and `c` return the address of the i-th matrix.
template <class A, class B, class C>
cublasStatus_t others(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                      const void* alpha, A a, Other a_type, int64_t lda, B b, Other b_type, int64_t ldb,
                      const void* beta, C c, Other c_type, int64_t ldc, int64_t count, cublasComputeType_t compute) {
    if (cublasStatus_t wrong = judge(h, ta, tb, m, n, k, lda, ldb, ldc)) return wrong;
    if (!alpha || !beta || count < 0) return CUBLAS_STATUS_INVALID_VALUE;
    const bool half = compute == CUBLAS_COMPUTE_16F;
    const bool single = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_16F ||
                        compute == CUBLAS_COMPUTE_32F_FAST_16BF || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((!half && !single) || !a_type.known() || !b_type.known() || !c_type.known()) return CUBLAS_STATUS_NOT_SUPPORTED;
    const Gemm<float> shape{ta, tb, int(m), int(n), int(k), nullptr, int(lda), nullptr, int(ldb), nullptr, int(ldc)};
    const auto run = [=](auto by, auto keep) {
        return enqueue(h, [=, reach = Reach()] {
            for (int64_t i = 0; i < count; ++i)
                if (const void* left = a(reach, i), *right = b(reach, i); reach.scalars(by, keep) && m > 0 && n > 0) {
                    void* const sum = c(reach, i);
                    const auto alpha = static_cast<float>(by()), beta = static_cast<float>(keep());
                    const bool at = ta != CUBLAS_OP_N, bt = tb != CUBLAS_OP_N, used = alpha != 0;
                    if (c_type.in(reach, sum, shape.m, shape.n, shape.ldc) &&
                        (!used || (a_type.in(reach, left, at ? shape.k : shape.m, at ? shape.m : shape.k, shape.lda) &&
                                   b_type.in(reach, right, bt ? shape.n : shape.k, bt ? shape.k : shape.n, shape.ldb))))
                        multiply(shape, left, a_type, right, b_type, sum, c_type, alpha, beta);
                }
        });
    };
    if (half) return run(Scalar(h, static_cast<const __half*>(alpha)), Scalar(h, static_cast<const __half*>(beta)));
    return run(Scalar(h, static_cast<const float*>(alpha)), Scalar(h, static_cast<const float*>(beta)));
}
bool doubles(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
    return a == CUDA_R_64F && b == a && c == a && compute == CUBLAS_COMPUTE_64F;
}
const double* real(const void* p) { return static_cast<const double*>(p); }

}  // namespace

BLAS cublasGemmStridedBatchedEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n,
                                   int64_t k, const void* alpha, const void* A, cudaDataType at, int64_t lda,
                                   long long stride_a, const void* B, cudaDataType bt, int64_t ldb, long long stride_b,
                                   const void* beta, void* C, cudaDataType ct, int64_t ldc, long long stride_c,
                                   int64_t count, cublasComputeType_t compute, cublasGemmAlgo_t) {
    if (doubles(at, bt, ct, compute))
        return cublasDgemmStridedBatched_64(h, ta, tb, m, n, k, real(alpha), real(A), lda, stride_a, real(B), ldb,
                                            stride_b, real(beta), static_cast<double*>(C), ldc, stride_c, count);
    const auto each = [](const void* first, cudaDataType type, long long stride) {
        return [=](const Reach&, int64_t i) {
            const auto elements = static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(stride);
            return const_cast<char*>(
                step(static_cast<const char*>(first), 1, static_cast<std::int64_t>(elements * Other{type}.bytes())));
        };
    };
    return others(h, ta, tb, m, n, k, alpha, each(A, at, stride_a), Other{at}, lda, each(B, bt, stride_b), Other{bt},
                  ldb, beta, each(C, ct, stride_c), Other{ct}, ldc, count, compute);
}
BLAS cublasGemmBatchedEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n,
                            int64_t k, const void* alpha, const void* const A[], cudaDataType at, int64_t lda,
                            const void* const B[], cudaDataType bt, int64_t ldb, const void* beta, void* const C[],
                            cudaDataType ct, int64_t ldc, int64_t count, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
    if (doubles(at, bt, ct, compute))
        return cublasDgemmBatched_64(h, ta, tb, m, n, k, real(alpha), reinterpret_cast<const double* const*>(A), lda,
                                     reinterpret_cast<const double* const*>(B), ldb, real(beta),
                                     reinterpret_cast<double* const*>(C), ldc, count);
    const auto each = [](auto array) { return [=](const Reach& reach, int64_t i) { return item(reach, array, i); }; };
    return others(h, ta, tb, m, n, k, alpha, each(A), Other{at}, lda, each(B), Other{bt}, ldb, beta, each(C), Other{ct},
                  ldc, count, compute);
}
BLAS cublasGemmEx_64(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                     const void* alpha, const void* A, cudaDataType at, int64_t lda, const void* B, cudaDataType bt,
                     int64_t ldb, const void* beta, void* C, cudaDataType ct, int64_t ldc, cublasComputeType_t compute,
                     cublasGemmAlgo_t algo) {
    return cublasGemmStridedBatchedEx_64(h, ta, tb, m, n, k, alpha, A, at, lda, 0, B, bt, ldb, 0, beta, C, ct, ldc, 0,
                                         1, compute, algo);
}
