// SPDX-License-Identifier: Apache-2.0
// handle.cc: handles, their settings, and how work gets into a stream.
#include <memory>

#include "soft-gpu/blas/blas.h"

namespace barcuda::soft::blas {
namespace {
using Work = std::function<void()>;
void CUDA_CB run_once(void* work) { (*std::unique_ptr<Work>(static_cast<Work*>(work)))(); }
void CUDA_CB run_again(void* work) { (*static_cast<Work*>(work))(); }
}  // namespace

cublasStatus_t enqueue(cublasHandle_t handle, Work work) {
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (cuStreamIsCapturing(handle->stream, &capture) != CUDA_SUCCESS) return CUBLAS_STATUS_EXECUTION_FAILED;
    // A graph may run the work any number of times, and does not report when its last clone ends.
    const bool once = capture == CU_STREAM_CAPTURE_STATUS_NONE;
    auto* own = new Work(std::move(work));
    const CUresult r = cuLaunchHostFunc(handle->stream, once ? run_once : run_again, own);
    if (r == CUDA_SUCCESS) return CUBLAS_STATUS_SUCCESS;
    delete own;
    return CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t answer(cublasHandle_t handle, Work work) {
    const cublasStatus_t status = enqueue(handle, std::move(work));
    if (status != CUBLAS_STATUS_SUCCESS || handle->scalars == CUBLAS_POINTER_MODE_DEVICE) return status;
    return cuStreamSynchronize(handle->stream) == CUDA_SUCCESS ? status : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace barcuda::soft::blas

BLAS cublasCreate_v2(cublasHandle_t* handle) {
    CUcontext context = nullptr;
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasContext;
    return CUBLAS_STATUS_SUCCESS;
}
BLAS cublasDestroy_v2(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;  // its work continues
    return CUBLAS_STATUS_SUCCESS;
}
BLAS cublasGetVersion_v2(cublasHandle_t handle, int* version) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}
BLAS cublasGetProperty(libraryPropertyType type, int* value) {
    switch (type) {
        case MAJOR_VERSION: *value = CUBLAS_VER_MAJOR; break;
        case MINOR_VERSION: *value = CUBLAS_VER_MINOR; break;
        case PATCH_LEVEL: *value = CUBLAS_VER_PATCH; break;
        default: return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}
// No workspace is needed.
BLAS cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    return reinterpret_cast<std::uintptr_t>(workspace) % 256 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

#define SETTING(member, name, getter, Type)                    \
    BLAS name(cublasHandle_t handle, Type value) {             \
        if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;     \
        return handle->member = value, CUBLAS_STATUS_SUCCESS;  \
    }                                                          \
    BLAS getter(cublasHandle_t handle, Type* value) {          \
        if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;     \
        return *value = handle->member, CUBLAS_STATUS_SUCCESS; \
    }
SETTING(stream, cublasSetStream_v2, cublasGetStream_v2, cudaStream_t)
SETTING(scalars, cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t)
SETTING(math, cublasSetMathMode, cublasGetMathMode, cublasMath_t)
SETTING(atomics, cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t)
SETTING(multiprocessors, cublasSetSmCountTarget, cublasGetSmCountTarget, int)
