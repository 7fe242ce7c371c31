// SPDX-License-Identifier: Apache-2.0
// error_calls.cc: the names and texts of all results, from the table that guest and software GPU share.
#include "shm-device/cuda/results.h"
#include "soft-gpu/driver/api.h"

CUresult cuGetErrorName(CUresult error, const char** pStr) {
    if (!pStr) return CUDA_ERROR_INVALID_VALUE;
    const barcuda::ResultText* const found = barcuda::find_result(error);
    *pStr = found ? found->name : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** pStr) {
    if (!pStr) return CUDA_ERROR_INVALID_VALUE;
    const barcuda::ResultText* const found = barcuda::find_result(error);
    *pStr = found ? found->text : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
