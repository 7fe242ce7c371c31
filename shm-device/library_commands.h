// library_commands.h: rows of the command table (commands.h) for NVIDIA's math libraries, which the worker calls on the host. A
// row is a function of <cublas_api.h> or <curand.h>, how the guest waits for it, and one kind per parameter.
//
// What cuBLAS gives to the GPU is posted, as launches are; the kinds refuse in the guest what the library would refuse at the
// call. The functions of BARCUDA_BLAS_WORK have a twin with 64-bit sizes (cublasSgemm_v2_64): it takes all that the other
// takes, so it alone crosses, under the short name.
#pragma once
#include "shm-device/library_kinds.h"
#include "shm-device/library_status.h"

// clang-format off
//    function                                        how   one kind per parameter
// The guest's own part of these is in guest-allocator/libraries/blas.cc and random.cc; all others are commands and nothing else.
#define BARCUDA_BLAS_INNER(X)                                                                          \
    X(cublasCreate_v2,                                call, make)                                      \
    X(cublasDestroy_v2,                               call, drop)                                      \
    X(cublasSetStream_v2,                             post, blas, use)

#define BARCUDA_BLAS_REMOTE(X)                                                                         \
    X(cublasSetWorkspace_v2,                          call, blas, bytes<2>, in)                        \
    X(cublasGetVersion_v2,                            call, blas, out)                                 \
    X(cublasGetProperty,                              call, in, out)                                   \
    X(cublasSetMathMode,                              call, blas, in)                                  \
    X(cublasGetMathMode,                              call, blas, out)                                 \
    X(cublasSetAtomicsMode,                           call, blas, in)                                  \
    X(cublasGetAtomicsMode,                           call, blas, out)                                 \
    X(cublasSetSmCountTarget,                         call, blas, in)                                  \
    X(cublasGetSmCountTarget,                         call, blas, out)                                 \
    X(cublasIsamax_v2,                                post, blas, in, vector<1>, in, result)           \
    X(cublasIdamax_v2,                                post, blas, in, vector<1>, in, result)           \
    X(cublasIsamin_v2,                                post, blas, in, vector<1>, in, result)           \
    X(cublasIdamin_v2,                                post, blas, in, vector<1>, in, result)           \
    X(cublasSgetrfBatched,                            post, blas, size, lu_a, in, lu_pivots, drawn<6>, size) \
    X(cublasDgetrfBatched,                            post, blas, size, lu_a, in, lu_pivots, drawn<6>, size)

#define BARCUDA_BLAS_WORK(X)                                                                           \
    X(cublasSasum_v2,                                 post, blas, in, vector<1>, in, result)           \
    X(cublasDasum_v2,                                 post, blas, in, vector<1>, in, result)           \
    X(cublasSnrm2_v2,                                 post, blas, in, vector<1>, in, result)           \
    X(cublasDnrm2_v2,                                 post, blas, in, vector<1>, in, result)           \
    X(cublasSdot_v2,                                  post, blas, in, vector<1>, in, vector<1>, in, result) \
    X(cublasDdot_v2,                                  post, blas, in, vector<1>, in, vector<1>, in, result) \
    X(cublasScopy_v2,                                 post, blas, in, vector<1>, in, vector<1>, in)    \
    X(cublasDcopy_v2,                                 post, blas, in, vector<1>, in, vector<1>, in)    \
    X(cublasSswap_v2,                                 post, blas, in, vector<1>, in, vector<1>, in)    \
    X(cublasDswap_v2,                                 post, blas, in, vector<1>, in, vector<1>, in)    \
    X(cublasSaxpy_v2,                                 post, blas, in, scalar, vector<1>, in, vector<1>, in) \
    X(cublasDaxpy_v2,                                 post, blas, in, scalar, vector<1>, in, vector<1>, in) \
    X(cublasSscal_v2,                                 post, blas, in, scalar, vector<1>, in)           \
    X(cublasDscal_v2,                                 post, blas, in, scalar, vector<1>, in)           \
    X(cublasSgemv_v2,                                 post, blas, operation, size, size, scalar, gemv_a, in, gemv_x, step, scalar, gemv_y, step) \
    X(cublasDgemv_v2,                                 post, blas, operation, size, size, scalar, gemv_a, in, gemv_x, step, scalar, gemv_y, step) \
    X(cublasSger_v2,                                  post, blas, size, size, scalar, vector<1>, step, vector<2>, step, ger_a, in) \
    X(cublasDger_v2,                                  post, blas, size, size, scalar, vector<1>, step, vector<2>, step, ger_a, in) \
    X(cublasStrsm_v2,                                 post, blas, two, two, operation, two, size, size, scalar, trsm_a, in, trsm_b, in) \
    X(cublasDtrsm_v2,                                 post, blas, two, two, operation, two, size, size, scalar, trsm_a, in, trsm_b, in) \
    X(cublasSgemm_v2,                                 post, blas, operation, operation, size, size, size, scalar, gemm_a, in, gemm_b, in, scalar, gemm_c, in) \
    X(cublasDgemm_v2,                                 post, blas, operation, operation, size, size, size, scalar, gemm_a, in, gemm_b, in, scalar, gemm_c, in) \
    X(cublasSgemmBatched,                             post, blas, operation, operation, size, size, size, scalar, array_a<14>, in, array_b<14>, in, scalar, array_c<14>, in, size) \
    X(cublasDgemmBatched,                             post, blas, operation, operation, size, size, size, scalar, array_a<14>, in, array_b<14>, in, scalar, array_c<14>, in, size) \
    X(cublasSgemmStridedBatched,                      post, blas, operation, operation, size, size, size, scalar, batch_a<17>, in, in, batch_b<17>, in, in, scalar, batch_c<17>, in, in, size) \
    X(cublasDgemmStridedBatched,                      post, blas, operation, operation, size, size, size, scalar, batch_a<17>, in, in, batch_b<17>, in, in, scalar, batch_c<17>, in, in, size) \
    X(cublasGemmEx,                                   call, blas, operation, operation, size, size, size, ex_scalar, gemm_a, in, in, gemm_b, in, in, ex_scalar, gemm_c, in, in, in, in) \
    X(cublasStrsmBatched,                             post, blas, two, two, operation, two, size, size, scalar, trsm_as, in, trsm_bs, in, size) \
    X(cublasDtrsmBatched,                             post, blas, two, two, operation, two, size, size, scalar, trsm_as, in, trsm_bs, in, size) \
    X(cublasGemmBatchedEx,                            call, blas, operation, operation, size, size, size, batched_ex_scalar, array_a<17>, in, in, array_b<17>, in, in, batched_ex_scalar, array_c<17>, in, in, size, in, in) \
    X(cublasGemmStridedBatchedEx,                     call, blas, operation, operation, size, size, size, strided_ex_scalar, batch_a<20>, in, in, in, batch_b<20>, in, in, in, strided_ex_scalar, batch_c<20>, in, in, in, size, in, in)

#define BARCUDA_RANDOM_INNER(X)                                                                     \
    X(curandCreateGenerator,                          call, make, in)                                  \
    X(curandCreateGeneratorHost,                      call, make, in)                                  \
    X(curandDestroyGenerator,                         call, drop)

#define BARCUDA_RANDOM_REMOTE(X)                                                                       \
    X(curandSetStream,                                call, use, use)                                  \
    X(curandSetPseudoRandomGeneratorSeed,             call, use, in)                                   \
    X(curandSetGeneratorOffset,                       call, use, in)                                   \
    X(curandSetGeneratorOrdering,                     call, use, in)                                   \
    X(curandSetQuasiRandomGeneratorDimensions,        call, use, in)                                   \
    X(curandGenerateSeeds,                            call, use)                                       \
    X(curandGetVersion,                               call, out)                                       \
    X(curandGetProperty,                              call, in, out)                                   \
    X(curandGenerate,                                 call, use, drawn<2>, in)                         \
    X(curandGenerateLongLong,                         call, use, drawn<2>, in)                         \
    X(curandGenerateUniform,                          call, use, drawn<2>, in)                         \
    X(curandGenerateUniformDouble,                    call, use, drawn<2>, in)                         \
    X(curandGenerateNormal,                           call, use, drawn<2>, in, in, in)                 \
    X(curandGenerateNormalDouble,                     call, use, drawn<2>, in, in, in)                 \
    X(curandGenerateLogNormal,                        call, use, drawn<2>, in, in, in)                 \
    X(curandGenerateLogNormalDouble,                  call, use, drawn<2>, in, in, in)                 \
    X(curandGeneratePoisson,                          call, use, drawn<2>, in, in)
// clang-format on
