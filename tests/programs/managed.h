// SPDX-License-Identifier: Apache-2.0
// managed.h: managed memory of a test's program, and a kernel that adds to it.
#pragma once
#include "driver.h"

__global__ void add(int* p, size_t n, int by) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] += by;
}

template <class T> static T* managed(size_t n, unsigned flags = cudaMemAttachGlobal) {
    T* p = nullptr;
    CHECK(cudaMallocManaged(&p, n * sizeof(T), flags));
    return p;
}
[[maybe_unused]] static cudaStream_t new_stream() {
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
[[maybe_unused]] static void launch(int* p, size_t n, int by, cudaStream_t s = nullptr) {
    add<<<4, 64, 0, s>>>(p, n, by);
    CHECK(cudaGetLastError());
}
[[maybe_unused]] static void done() { CHECK(cudaDeviceSynchronize()); }
[[maybe_unused]] static bool all_are(const int* p, size_t n, int value) {
    for (size_t i = 0; i < n; ++i)
        if (p[i] != value) {
            printf("%zu: %d, not %d\n", i, p[i], value);
            return false;
        }
    return true;
}
