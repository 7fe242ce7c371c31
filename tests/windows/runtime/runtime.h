/* SPDX-License-Identifier: Apache-2.0
 * runtime.h: what the programs of the runtime API share. nvcc does not compile for mingw, so their kernels are those of
 * a library, which is loaded from PTX.
 */
#pragma once
#include <cuda_runtime_api.h>

#define check check_driver
#include "../programs/check.h"
#undef check
#undef CHECK

#define CHECK(call) check(call, #call, __LINE__)
static inline void check(cudaError_t error, const char* call, int line) {
    if (error == cudaSuccess) return;
    printf("line %d: %s: %s\n", line, call, cudaGetErrorName(error));
    exit(1);
}

static inline const void* kernel_of(cudaLibrary_t* library, const char* name) {
    cudaKernel_t kernel;
    CHECK(cudaLibraryLoadData(library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&kernel, *library, name));
    return (const void*)kernel;
}
static inline dim3 extent(unsigned x, unsigned y, unsigned z) {
    const dim3 it = {x, y, z};
    return it;
}
/* add(p, n, value): p[i] += value */
static inline void launch_kernel(const void* add, int* p, unsigned n, int value, cudaStream_t stream) {
    void* arguments[] = {&p, &n, &value};
    CHECK(cudaLaunchKernel(add, extent((n + 127) / 128, 1, 1), extent(128, 1, 1), arguments, 0, stream));
}
