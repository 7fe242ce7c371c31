// SPDX-License-Identifier: Apache-2.0
// cublas.h: rows of cuBLAS, which the worker calls on the host. (What a row says: shm-device/rows/commands.h.)
//
// What cuBLAS gives to the GPU is posted, as launches are; the kinds refuse in the guest what the library would refuse
// at the call. A function of the second list has a twin with 64-bit sizes (cublasSgemm_v2_64): it takes all that the
// other takes, so it alone crosses, under the short name.
#pragma once
// clang-format off
//    cuBLAS's function                         how         traits, one kind per parameter
#define BARCUDA_CUBLAS_ROWS(X)                                                                                     \
    X(cublasCreate_v2,                          inner_call, work, make)                                            \
    X(cublasDestroy_v2,                         inner_call, work, drop)                                            \
    X(cublasSetStream_v2,                       inner_post, lasts, blas, use)                                      \
    X(cublasGetStream_v2,                       guest,      plain)                                                 \
    X(cublasSetPointerMode_v2,                  guest,      plain)                                                 \
    X(cublasGetPointerMode_v2,                  guest,      plain)                                                 \
    X(cublasGetCudartVersion,                   guest,      plain)                                                 \
    X(cublasGetStatusName,                      guest,      plain)                                                 \
    X(cublasGetStatusString,                    guest,      plain)                                                 \
    X(cublasSetWorkspace_v2,                    call,       work|lasts, blas, bytes<2>, in)                        \
    X(cublasGetVersion_v2,                      call,       work|asks, blas, out)                                  \
    X(cublasGetProperty,                        call,       work|asks, in, out)                                    \
    X(cublasSetMathMode,                        call,       work|lasts, blas, in)                                  \
    X(cublasGetMathMode,                        call,       work|asks, blas, out)                                  \
    X(cublasSetAtomicsMode,                     call,       work|lasts, blas, in)                                  \
    X(cublasGetAtomicsMode,                     call,       work|asks, blas, out)                                  \
    X(cublasSetSmCountTarget,                   call,       work|lasts, blas, in)                                  \
    X(cublasGetSmCountTarget,                   call,       work|asks, blas, out)                                  \
    X(cublasIsamax_v2,                          post,       work, blas, in, vector<1>, in, result)                 \
    X(cublasIdamax_v2,                          post,       work, blas, in, vector<1>, in, result)                 \
    X(cublasIsamin_v2,                          post,       work, blas, in, vector<1>, in, result)                 \
    X(cublasIdamin_v2,                          post,       work, blas, in, vector<1>, in, result)                 \
    X(cublasSgetrfBatched,                      post,       work, blas, size, lu_a, in, lu_pivots, drawn<6>, size) \
    X(cublasDgetrfBatched,                      post,       work, blas, size, lu_a, in, lu_pivots, drawn<6>, size)

#define BARCUDA_CUBLAS_WIDE_ROWS(X)                                                                                    \
    X(cublasSetVector,                          guest,      plain)                                                     \
    X(cublasSetVectorAsync,                     guest,      plain)                                                     \
    X(cublasSetMatrix,                          guest,      plain)                                                     \
    X(cublasSetMatrixAsync,                     guest,      plain)                                                     \
    X(cublasGetVector,                          guest,      plain)                                                     \
    X(cublasGetVectorAsync,                     guest,      plain)                                                     \
    X(cublasGetMatrix,                          guest,      plain)                                                     \
    X(cublasGetMatrixAsync,                     guest,      plain)                                                     \
    X(cublasSasum_v2,                           post,       work, blas, in, vector<1>, in, result)                     \
    X(cublasDasum_v2,                           post,       work, blas, in, vector<1>, in, result)                     \
    X(cublasSnrm2_v2,                           post,       work, blas, in, vector<1>, in, result)                     \
    X(cublasDnrm2_v2,                           post,       work, blas, in, vector<1>, in, result)                     \
    X(cublasSdot_v2,                            post,       work, blas, in, vector<1>, in, vector<1>, in, result)      \
    X(cublasDdot_v2,                            post,       work, blas, in, vector<1>, in, vector<1>, in, result)      \
    X(cublasScopy_v2,                           post,       work, blas, in, vector<1>, in, vector<1>, in)              \
    X(cublasDcopy_v2,                           post,       work, blas, in, vector<1>, in, vector<1>, in)              \
    X(cublasSswap_v2,                           post,       work, blas, in, vector<1>, in, vector<1>, in)              \
    X(cublasDswap_v2,                           post,       work, blas, in, vector<1>, in, vector<1>, in)              \
    X(cublasSaxpy_v2,                           post,       work, blas, in, scalar, vector<1>, in, vector<1>, in)      \
    X(cublasDaxpy_v2,                           post,       work, blas, in, scalar, vector<1>, in, vector<1>, in)      \
    X(cublasSscal_v2,                           post,       work, blas, in, scalar, vector<1>, in)                     \
    X(cublasDscal_v2,                           post,       work, blas, in, scalar, vector<1>, in)                     \
    X(cublasSgemv_v2,                           post,       work, blas, operation, size, size, scalar, gemv_a, in, gemv_x, step, scalar, gemv_y, step) \
    X(cublasDgemv_v2,                           post,       work, blas, operation, size, size, scalar, gemv_a, in, gemv_x, step, scalar, gemv_y, step) \
    X(cublasSger_v2,                            post,       work, blas, size, size, scalar, vector<1>, step, vector<2>, step, ger_a, in) \
    X(cublasDger_v2,                            post,       work, blas, size, size, scalar, vector<1>, step, vector<2>, step, ger_a, in) \
    X(cublasStrsm_v2,                           post,       work, blas, two, two, operation, two, size, size, scalar, trsm_a, in, trsm_b, in) \
    X(cublasDtrsm_v2,                           post,       work, blas, two, two, operation, two, size, size, scalar, trsm_a, in, trsm_b, in) \
    X(cublasSgemm_v2,                           post,       work, blas, operation, operation, size, size, size, scalar, gemm_a, in, gemm_b, in, scalar, gemm_c, in) \
    X(cublasDgemm_v2,                           post,       work, blas, operation, operation, size, size, size, scalar, gemm_a, in, gemm_b, in, scalar, gemm_c, in) \
    X(cublasSgemmBatched,                       post,       work, blas, operation, operation, size, size, size, scalar, array_a<14>, in, array_b<14>, in, scalar, array_c<14>, in, size) \
    X(cublasDgemmBatched,                       post,       work, blas, operation, operation, size, size, size, scalar, array_a<14>, in, array_b<14>, in, scalar, array_c<14>, in, size) \
    X(cublasSgemmStridedBatched,                post,       work, blas, operation, operation, size, size, size, scalar, batch_a<17>, in, in, batch_b<17>, in, in, scalar, batch_c<17>, in, in, size) \
    X(cublasDgemmStridedBatched,                post,       work, blas, operation, operation, size, size, size, scalar, batch_a<17>, in, in, batch_b<17>, in, in, scalar, batch_c<17>, in, in, size) \
    X(cublasGemmEx,                             call,       work, blas, operation, operation, size, size, size, ex_scalar, gemm_a, in, in, gemm_b, in, in, ex_scalar, gemm_c, in, in, in, in) \
    X(cublasStrsmBatched,                       post,       work, blas, two, two, operation, two, size, size, scalar, trsm_as, in, trsm_bs, in, size) \
    X(cublasDtrsmBatched,                       post,       work, blas, two, two, operation, two, size, size, scalar, trsm_as, in, trsm_bs, in, size) \
    X(cublasGemmBatchedEx,                      call,       work, blas, operation, operation, size, size, size, batched_ex_scalar, array_a<17>, in, in, array_b<17>, in, in, batched_ex_scalar, array_c<17>, in, in, size, in, in) \
    X(cublasGemmStridedBatchedEx,               call,       work, blas, operation, operation, size, size, size, strided_ex_scalar, batch_a<20>, in, in, in, batch_b<20>, in, in, in, strided_ex_scalar, batch_c<20>, in, in, in, size, in, in)
// clang-format on
