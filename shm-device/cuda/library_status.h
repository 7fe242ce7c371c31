// SPDX-License-Identifier: Apache-2.0
// library_status.h: what a function answers, as it travels. A reply has room for a CUresult, and so has the status page
// for the failure of a posted command: a status of cuBLAS or cuRAND crosses as the CUresult that says the same.
#pragma once
#include <cublas_api.h>
#include <cuda.h>
#include <curand.h>

namespace barcuda {

// Both ways the first row that fits counts. What the session itself answers (a handle that it does not know, a library
// that the host has not) has its rows too.
template <class S> struct Same {
    S status;
    CUresult code;
};
inline constexpr Same<cublasStatus_t> blas_statuses[] = {
    {CUBLAS_STATUS_SUCCESS, CUDA_SUCCESS},
    {CUBLAS_STATUS_NOT_INITIALIZED, CUDA_ERROR_INVALID_HANDLE},
    {CUBLAS_STATUS_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED},
    {CUBLAS_STATUS_NOT_INITIALIZED, CUDA_ERROR_INVALID_CONTEXT},
    {CUBLAS_STATUS_NOT_INITIALIZED, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED},
    {CUBLAS_STATUS_ALLOC_FAILED, CUDA_ERROR_OUT_OF_MEMORY},
    {CUBLAS_STATUS_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
    {CUBLAS_STATUS_ARCH_MISMATCH, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {CUBLAS_STATUS_MAPPING_ERROR, CUDA_ERROR_MAP_FAILED},
    {CUBLAS_STATUS_EXECUTION_FAILED, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},  // CUDA_ERROR_LAUNCH_FAILED ends a context
    {CUBLAS_STATUS_EXECUTION_FAILED, CUDA_ERROR_LAUNCH_FAILED},
    {CUBLAS_STATUS_EXECUTION_FAILED, CUDA_ERROR_ILLEGAL_ADDRESS},
    {CUBLAS_STATUS_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED},
    {CUBLAS_STATUS_LICENSE_ERROR, CUDA_ERROR_DEVICE_NOT_LICENSED},
    {CUBLAS_STATUS_INTERNAL_ERROR, CUDA_ERROR_UNKNOWN},
};
inline constexpr Same<curandStatus_t> random_statuses[] = {
    {CURAND_STATUS_SUCCESS, CUDA_SUCCESS},
    {CURAND_STATUS_VERSION_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH},
    {CURAND_STATUS_NOT_INITIALIZED, CUDA_ERROR_INVALID_HANDLE},
    {CURAND_STATUS_ALLOCATION_FAILED, CUDA_ERROR_OUT_OF_MEMORY},
    {CURAND_STATUS_TYPE_ERROR, CUDA_ERROR_INVALID_RESOURCE_TYPE},
    {CURAND_STATUS_OUT_OF_RANGE, CUDA_ERROR_INVALID_VALUE},
    {CURAND_STATUS_LENGTH_NOT_MULTIPLE, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION},
    {CURAND_STATUS_DOUBLE_PRECISION_REQUIRED, CUDA_ERROR_NOT_SUPPORTED},
    {CURAND_STATUS_LAUNCH_FAILURE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},
    {CURAND_STATUS_PREEXISTING_FAILURE, CUDA_ERROR_ILLEGAL_STATE},
    {CURAND_STATUS_INITIALIZATION_FAILED, CUDA_ERROR_NOT_INITIALIZED},
    {CURAND_STATUS_INITIALIZATION_FAILED, CUDA_ERROR_INVALID_CONTEXT},
    {CURAND_STATUS_INITIALIZATION_FAILED, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED},
    {CURAND_STATUS_ARCH_MISMATCH, CUDA_ERROR_NO_BINARY_FOR_GPU},
    {CURAND_STATUS_INTERNAL_ERROR, CUDA_ERROR_UNKNOWN},
};

// How an answer of type S travels: code() sends it, of() receives it.
template <class S> struct Status;
template <> struct Status<CUresult> {
    static constexpr CUresult code(CUresult r) { return r; }
    static constexpr CUresult of(CUresult r) { return r; }
};
template <class S, const auto& rows, S otherwise> struct Listed {
    static constexpr CUresult code(S status) {
        for (const Same<S>& row : rows)
            if (row.status == status) return row.code;
        return CUDA_ERROR_UNKNOWN;
    }
    static constexpr S of(CUresult code) {
        for (const Same<S>& row : rows)
            if (row.code == code) return row.status;
        return otherwise;
    }
};
template <> struct Status<cublasStatus_t> : Listed<cublasStatus_t, blas_statuses, CUBLAS_STATUS_INTERNAL_ERROR> {};
template <> struct Status<curandStatus_t> : Listed<curandStatus_t, random_statuses, CURAND_STATUS_INTERNAL_ERROR> {};

}  // namespace barcuda
