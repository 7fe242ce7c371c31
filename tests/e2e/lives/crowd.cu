// SPDX-License-Identifier: Apache-2.0
// crowd: a client among others on a card that is too small for all: works on all of its memory, rests, gives some of it
// up and takes new, and compares every page with what it must be.
//   crowd MIB ROUNDS SEED [MOST_REST_MS]   says "working" when it has its memory, and "right" at the end
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        if (const cudaError_t e_ = (call)) {                                               \
            std::fprintf(stderr, "crowd: %s: %s\n", #call, cudaGetErrorString(e_));        \
            std::fflush(nullptr);                                                          \
            _exit(e_ == cudaErrorMemoryAllocation ? 2 : 1);                                \
        }                                                                                  \
    } while (0)

constexpr size_t page = 4096, mib = 1 << 20;

// A word of each page: the software GPU would take long for all.
__global__ void fill(unsigned* words, unsigned seed, size_t pages) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages; i += size_t{gridDim.x} * blockDim.x)
        words[i * (page / 4)] = unsigned(i) * 2654435761u + seed;
}
__global__ void add(unsigned* words, size_t pages) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages; i += size_t{gridDim.x} * blockDim.x)
        ++words[i * (page / 4)];
}
__global__ void compare(const unsigned* words, unsigned seed, size_t pages, unsigned* wrong) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < pages; i += size_t{gridDim.x} * blockDim.x)
        if (words[i * (page / 4)] != unsigned(i) * 2654435761u + seed) atomicAdd(wrong, 1u);
}

struct Block {
    unsigned* at;
    size_t bytes;
    unsigned seed;
};

int main(int argc, char** argv) {
    if (argc < 4) return 64;
    const size_t all = std::atoi(argv[1]) * mib;
    const int rounds = std::atoi(argv[2]), rest = argc > 4 ? std::atoi(argv[4]) : 20;
    std::minstd_rand random(std::atoi(argv[3]));
    std::vector<Block> blocks;
    size_t has = 0;
    unsigned* wrong = nullptr;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    const auto take = [&] {
        while (has < all) {
            Block b{nullptr, std::min<size_t>(all - has, (1 + random() % 96) * mib), unsigned(random())};
            CHECK(cudaMalloc(&b.at, b.bytes));
            fill<<<2, 32>>>(b.at, b.seed, b.bytes / page);
            CHECK(cudaGetLastError());
            blocks.push_back(b);
            has += b.bytes;
        }
    };
    take();
    CHECK(cudaDeviceSynchronize());
    std::printf("working\n");
    std::fflush(stdout);
    for (int round = 0; round < rounds; ++round) {
        for (Block& b : blocks) {
            add<<<2, 32>>>(b.at, b.bytes / page);
            ++b.seed;
        }
        if (random() % 4 == 0) {
            for (const Block& b : blocks) compare<<<2, 32>>>(b.at, b.seed, b.bytes / page, wrong);
            unsigned count = 0;
            CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
            if (count != 0) {
                std::fprintf(stderr, "crowd: round %d: %u pages are not as they were left\n", round, count);
                return 1;
            }
        }
        if (random() % 4 == 0) {
            const size_t i = random() % blocks.size();
            CHECK(cudaFree(blocks[i].at));
            has -= blocks[i].bytes;
            blocks.erase(blocks.begin() + i);
            take();
        }
        if (rest != 0 && random() % 3 == 0) {
            CHECK(cudaDeviceSynchronize());
            usleep(random() % (rest * 1000));
        }
    }
    for (const Block& b : blocks) compare<<<2, 32>>>(b.at, b.seed, b.bytes / page, wrong);
    unsigned count = 0;
    CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
    std::printf(count == 0 ? "right\n" : "wrong: %u pages\n", count);
    return count != 0;
}
