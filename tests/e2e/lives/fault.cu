// SPDX-License-Identifier: Apache-2.0
// fault.cu: a kernel writes to an address that has no memory; the program must be told, and its next calls too.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void wild(int* p) { *p = 1; }

int main() {
    wild<<<1, 1>>>((int*)0x123456789000);
    const cudaError_t first = cudaDeviceSynchronize();
    void* p = nullptr;
    const cudaError_t second = cudaMalloc(&p, 16);
    printf("%s, then %s\n", cudaGetErrorName(first), cudaGetErrorName(second));
    return first == cudaErrorIllegalAddress && second == cudaErrorIllegalAddress ? 0 : 1;
}
