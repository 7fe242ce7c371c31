// SPDX-License-Identifier: Apache-2.0
// pooled: takes device memory from a stream's pool, piece by piece: memory of the driver's own, which cannot leave a
// card.
//   pooled MIB [hold]    says "right" at the end. hold: says "working" when it has it, and waits for a line before it
//                        compares all of it
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
    if (argc < 2) return 64;
    const size_t piece = 40 << 20;
    std::vector<void*> all;
    for (size_t has = 0; has < std::atoi(argv[1]) * (size_t{1} << 20); has += piece) {
        void* p = nullptr;
        cudaError_t e = cudaMallocAsync(&p, piece, nullptr);
        if (e == cudaSuccess) e = cudaMemsetAsync(p, 1, piece, nullptr);
        if (e == cudaSuccess) e = cudaStreamSynchronize(nullptr);
        all.push_back(p);
        if (e == cudaSuccess) continue;
        std::fprintf(stderr, "pooled: behind %zu MiB: %s\n", has >> 20, cudaGetErrorString(e));
        return e == cudaErrorMemoryAllocation ? 2 : 1;
    }
    if (argc > 2 && std::strcmp(argv[2], "hold") == 0) {
        std::printf("working\n");
        std::fflush(stdout);
        std::getchar();
        std::vector<unsigned char> back(piece);
        for (void* p : all) {
            if (cudaMemcpy(back.data(), p, piece, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
            for (const unsigned char byte : back)
                if (byte != 1) return 1;
        }
    }
    std::printf("right\n");
    return 0;
}
