// SPDX-License-Identifier: Apache-2.0
// curand.h: rows of cuRAND, which the worker calls on the host. (What a row says: shm-device/rows/commands.h.)
#pragma once
// clang-format off
//    cuRAND's function                         how         traits, one kind per parameter
#define BARCUDA_CURAND_ROWS(X)                                                               \
    X(curandCreateGenerator,                    inner_call, work, make, in)                  \
    X(curandCreateGeneratorHost,                inner_call, work, make, in)                  \
    X(curandDestroyGenerator,                   inner_call, work, drop)                      \
    X(curandSetStream,                          call,       work|lasts, use, use)            \
    X(curandSetPseudoRandomGeneratorSeed,       call,       work|lasts, use, in)             \
    X(curandSetGeneratorOffset,                 call,       work|lasts, use, in)             \
    X(curandSetGeneratorOrdering,               call,       work|lasts, use, in)             \
    X(curandSetQuasiRandomGeneratorDimensions,  call,       work|lasts, use, in)             \
    X(curandGenerateSeeds,                      call,       work|lasts, use)                 \
    X(curandGetVersion,                         call,       work|asks, out)                  \
    X(curandGetProperty,                        call,       work|asks, in, out)              \
    X(curandGenerate,                           call,       work|lasts, use, drawn<2>, in)   \
    X(curandGenerateLongLong,                   call,       work|lasts, use, drawn<2>, in)   \
    X(curandGenerateUniform,                    call,       work|lasts, use, drawn<2>, in)   \
    X(curandGenerateUniformDouble,              call,       work|lasts, use, drawn<2>, in)   \
    X(curandGenerateNormal,                     call,       work|lasts, use, drawn<2>, in, in, in) \
    X(curandGenerateNormalDouble,               call,       work|lasts, use, drawn<2>, in, in, in) \
    X(curandGenerateLogNormal,                  call,       work|lasts, use, drawn<2>, in, in, in) \
    X(curandGenerateLogNormalDouble,            call,       work|lasts, use, drawn<2>, in, in, in) \
    X(curandGeneratePoisson,                    call,       work|lasts, use, drawn<2>, in, in)
// clang-format on
