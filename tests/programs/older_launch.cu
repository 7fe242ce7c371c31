// SPDX-License-Identifier: Apache-2.0
// older_launch: launches and contexts as programs of CUDA 3 have them: shape and parameters are set by calls of their
// own, contexts are attached to and detached from.
#include <climits>

#include "driver.h"

#define FUNCTION(name) static const auto p_##name = entry<name##_of>(#name, 2000)
// cuda.h warns of those that are deprecated: these are their types.
using cuFuncSetBlockShape_of = CUresult (*)(CUfunction, int, int, int);
using cuFuncSetSharedSize_of = CUresult (*)(CUfunction, unsigned);
using cuParamSetSize_of = CUresult (*)(CUfunction, unsigned);
using cuParamSeti_of = CUresult (*)(CUfunction, int, unsigned);
using cuParamSetf_of = CUresult (*)(CUfunction, int, float);
using cuParamSetv_of = CUresult (*)(CUfunction, int, void*, unsigned);
using cuLaunch_of = CUresult (*)(CUfunction);
using cuLaunchGrid_of = CUresult (*)(CUfunction, int, int);
using cuLaunchGridAsync_of = CUresult (*)(CUfunction, int, int, CUstream);
using cuCtxAttach_of = CUresult (*)(CUcontext*, unsigned);
using cuCtxDetach_of = CUresult (*)(CUcontext);

struct Pair {
    short a, b;
};
__global__ void fill(int* out, unsigned first, float second, Pair pair) {
    extern __shared__ int kept[];
    kept[threadIdx.x] = (int)(first + second) + pair.a * pair.b;
    __syncthreads();
    out[blockIdx.y * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x] =
        kept[blockDim.x - 1 - threadIdx.x];
}

int main() {
    FUNCTION(cuFuncSetBlockShape);
    FUNCTION(cuFuncSetSharedSize);
    FUNCTION(cuParamSetSize);
    FUNCTION(cuParamSeti);
    FUNCTION(cuParamSetf);
    FUNCTION(cuParamSetv);
    FUNCTION(cuLaunch);
    FUNCTION(cuLaunchGrid);
    FUNCTION(cuLaunchGridAsync);
    FUNCTION(cuCtxAttach);
    FUNCTION(cuCtxDetach);
    int* out;
    CHECK(cudaMalloc(&out, 64 * sizeof *out));
    cudaFunction_t kernel;
    CHECK(cudaGetFuncBySymbol(&kernel, (const void*)fill));
    const CUfunction function = (CUfunction)kernel;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Pair pair{3, 7};
    int seen[64];
    const auto holds = [&](int count, int value) {
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
        CHECK(cudaMemset(out, 0, sizeof seen));
        CHECK(cudaDeviceSynchronize());  // the next launch may be in a stream that does not wait for it
        for (int i = 0; i < 64; ++i) REQUIRE(seen[i] == (i < count ? value : 0));
    };
    CHECK(cudaMemset(out, 0, sizeof seen));

    DRIVER(p_cuParamSetSize(function, 20));
    DRIVER(p_cuParamSetv(function, 0, &out, sizeof out));
    DRIVER(p_cuParamSeti(function, 8, 1000));
    DRIVER(p_cuParamSetf(function, 12, 100.f));
    DRIVER(p_cuParamSetv(function, 16, &pair, sizeof pair));
    DRIVER(p_cuFuncSetSharedSize(function, 256));
    DRIVER(p_cuFuncSetBlockShape(function, 8, 1, 1));
    DRIVER(p_cuLaunch(function));
    holds(8, 1121);
    DRIVER(p_cuLaunchGrid(function, 2, 3));  // what was set stays
    holds(48, 1121);
    DRIVER(p_cuParamSeti(function, 8, 2000));
    DRIVER(p_cuFuncSetBlockShape(function, 4, 1, 1));
    DRIVER(p_cuLaunchGridAsync(function, 4, 1, (CUstream)stream));
    DRIVER(p_cuParamSeti(function, 8, 0));  // that launch has its parameters
    holds(16, 2121);

    // A call with a wrong number answers so, and leaves the function as it was.
    for (const int side : {0, -1, 4000, INT_MIN})
        REQUIRE(p_cuFuncSetBlockShape(function, side, 1, 1) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuFuncSetBlockShape(nullptr, 1, 1, 1) == CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(p_cuFuncSetSharedSize(function, 1 << 20) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuParamSeti(nullptr, 0, 1) == CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(p_cuLaunchGrid(function, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuLaunch(function));
    holds(4, 121);

    CUcontext primary = nullptr, made = nullptr;
    DRIVER(p_cuCtxAttach(&primary, 0));
    REQUIRE(p_cuCtxAttach(&made, 1) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuCtxDetach(primary));
    REQUIRE(p_cuCtxDetach(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
    using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
    using Get = CUresult (*)(CUcontext*);
    const auto create = entry<Create>("cuCtxCreate", 3020);
    const auto current = entry<Get>("cuCtxGetCurrent", 4000);
    DRIVER(create(&made, 0, 0));
    CUcontext again = nullptr, now = nullptr;
    DRIVER(p_cuCtxAttach(&again, 0));
    REQUIRE(again == made);
    DRIVER(p_cuCtxDetach(made));
    DRIVER(current(&now));
    REQUIRE(now == made);
    DRIVER(p_cuCtxDetach(made));  // its last use: it ends
    DRIVER(current(&now));
    REQUIRE(now == primary);
    printf("PASSED\n");
    return 0;
}
