// SPDX-License-Identifier: Apache-2.0
// malloc_again: device memory that is allocated and freed: what is freed may be allocated again at once, but not
// twice, and not used by the old pointer; and what is free can be counted.
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

constexpr size_t MiB = 1 << 20;

struct Block {
    unsigned char* p;
    size_t bytes;
    unsigned char tag;
};
static void right(const Block& b) {
    std::vector<unsigned char> is(b.bytes);
    CHECK(cudaMemcpy(is.data(), b.p, b.bytes, cudaMemcpyDeviceToHost));
    for (unsigned char c : is)
        if (c != b.tag) printf("FAILED: a byte of %zu is %u, not %u\n", b.bytes, c, b.tag), exit(1);
}

// Blocks of some sizes, in any order; each keeps its bytes as long as it lives.
static void come_and_go(unsigned number) {
    const size_t sizes[] = {1, 300, 4096, 65536, MiB, 3 * MiB};
    std::vector<Block> blocks;
    for (int i = 0; i < 600; ++i) {
        number = number * 1664525 + 1013904223;
        if (blocks.size() < 3 || (blocks.size() < 30 && number >> 31)) {
            Block b{nullptr, sizes[(number >> 8) % 6], static_cast<unsigned char>(number >> 16)};
            CHECK(cudaMalloc(&b.p, b.bytes));
            CHECK(cudaMemset(b.p, b.tag, b.bytes));
            blocks.push_back(b);
        } else {
            const size_t which = (number >> 8) % blocks.size();
            right(blocks[which]);
            CHECK(cudaFree(blocks[which].p));
            blocks[which] = blocks.back();
            blocks.pop_back();
        }
    }
    for (const Block& b : blocks) {
        right(b);
        CHECK(cudaFree(b.p));
    }
}

static size_t free_now() {
    size_t free, all;
    CHECK(cudaMemGetInfo(&free, &all));
    return free;
}

int main() {
    std::thread others[] = {std::thread(come_and_go, 1), std::thread(come_and_go, 2)};
    come_and_go(3);
    for (std::thread& t : others) t.join();

    char* p;
    bool counted = false;
    for (int tries = 0; tries < 100 && !counted; ++tries) {  // other programs may start and end meanwhile
        const size_t before = free_now();
        CHECK(cudaMalloc(&p, 256 * MiB));
        const size_t during = free_now();
        CHECK(cudaFree(p));
        counted = during + 256 * MiB <= before && free_now() >= before;
    }
    REQUIRE(counted);

    CHECK(cudaMalloc(&p, 4096));
    CHECK(cudaFree(p));
    cudaError_t r = cudaMemset(p, 1, 256);  // it is free now
    if (r == cudaSuccess) r = cudaDeviceSynchronize();
    REQUIRE(r == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaDeviceSynchronize());
    printf("every block kept its bytes\nPASSED\n");
    return 0;
}
