// SPDX-License-Identifier: Apache-2.0
// calls.h: CUDA's calls in benchmark programs: where one fails, the row that it is in is refused with the reason
// (measure.h).
#pragma once
#include <cuda_runtime.h>

#include "measure.h"

inline Bench bench;

inline bool good(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return true;
    bench.failure(call, cudaGetErrorString(error));
    cudaGetLastError();
    return false;
}
#define TRY(call) good((call), #call)

static __global__ void empty() {}

inline void drain(cudaStream_t stream) { TRY(cudaStreamSynchronize(stream)); }
