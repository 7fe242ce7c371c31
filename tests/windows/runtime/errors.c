/* SPDX-License-Identifier: Apache-2.0
 * errors.c: errors by name and text, and the one that a thread remembers
 */
#include "runtime.h"

int main(void) {
    int error;
    void* p;
    for (error = 0; error < 1000; ++error)
        if (strcmp(cudaGetErrorName((cudaError_t)error), "unrecognized error code") != 0)
            printf("%d %s: %s\n", error, cudaGetErrorName((cudaError_t)error), cudaGetErrorString((cudaError_t)error));
    EXPECT(cudaMalloc(&p, (size_t)1 << 60) == cudaErrorMemoryAllocation);
    EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT(cudaSetDevice(99) == cudaErrorInvalidDevice);
    EXPECT(cudaFree((void*)8) == cudaErrorInvalidValue);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    return passed();
}
