// SPDX-License-Identifier: Apache-2.0
// pooled: takes device memory from a stream's pool, piece by piece: memory of the driver's own, which cannot leave a card.
//   pooled MIB    says "right" at the end
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
    if (argc < 2) return 64;
    const size_t piece = 40 << 20;
    for (size_t has = 0; has < std::atoi(argv[1]) * (size_t{1} << 20); has += piece) {
        void* p = nullptr;
        cudaError_t e = cudaMallocAsync(&p, piece, nullptr);
        if (e == cudaSuccess) e = cudaMemsetAsync(p, 1, piece, nullptr);
        if (e == cudaSuccess) e = cudaStreamSynchronize(nullptr);
        if (e == cudaSuccess) continue;
        std::fprintf(stderr, "pooled: behind %zu MiB: %s\n", has >> 20, cudaGetErrorString(e));
        return e == cudaErrorMemoryAllocation ? 2 : 1;
    }
    std::printf("right\n");
    return 0;
}
