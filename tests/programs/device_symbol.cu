// SPDX-License-Identifier: Apache-2.0
// device_symbol.cu: __device__ and __constant__ variables, written and read by cudaMemcpyToSymbol and
// cudaMemcpyFromSymbol.
#include "check.h"

__constant__ float coefficients[4];
__device__ float results[256];
__device__ unsigned calls = 40;

__global__ void polynomial() {
    float x = threadIdx.x;
    results[threadIdx.x] = ((coefficients[3] * x + coefficients[2]) * x + coefficients[1]) * x + coefficients[0];
    if (threadIdx.x == 0) calls++;
}

int main() {
    const float c[4] = {1, 2, 3, 0.125f};  // every value is exact, fused multiply-add or not
    float r[256];
    unsigned n = 0;
    long wrong = 0;

    CHECK(cudaMemcpyToSymbol(coefficients, c, sizeof(c)));
    polynomial<<<1, 256>>>();
    polynomial<<<1, 256>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyFromSymbol(r, results, sizeof(r)));
    CHECK(cudaMemcpyFromSymbol(&n, calls, sizeof(n)));
    for (int x = 0; x < 256; x++) wrong += r[x] != 1.0f + x * (2.0f + x * (3.0f + x * 0.125f));
    printf("p(10) = %g, called %u times\n", r[10], n - 40);
    wrong += n != 42;

    // An offset into the symbol, and the symbol's own address and size.
    float five = 5;
    CHECK(cudaMemcpyToSymbol(coefficients, &five, sizeof(five), 1 * sizeof(float)));
    polynomial<<<1, 256>>>();
    float* address = nullptr;
    size_t size = 0;
    CHECK(cudaGetSymbolAddress((void**)&address, results));
    CHECK(cudaGetSymbolSize(&size, results));
    CHECK(cudaMemcpy(r, address, sizeof(r), cudaMemcpyDeviceToHost));
    printf("with another coefficient p(10) = %g; the symbol is %zu bytes\n", r[10], size);
    wrong += r[10] != 476.0f;
    wrong += size != sizeof(r);
    wrong += cudaMemcpyToSymbol(coefficients, c, sizeof(c), 4) == cudaSuccess;  // would run over its end
    cudaGetLastError();
    return verdict(wrong);
}
