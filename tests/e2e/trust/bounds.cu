// SPDX-License-Identifier: Apache-2.0
// bounds.cu: for test_limits.py: what a client may have beside device memory. `pinned`: takes pinned memory until there
// is no more, twice, and prints how many MiB. `events`: the same, of events. `image`: what an image of 256 MiB that is
// none is refused with; and that all is well then. `print LINES`: that many lines of 64 bytes. `queue LAUNCHES`:
// launches LAUNCHES kernels behind one that waits; prints "running" when all were called; ends the first at the end of
// its input. `large MIB`: prints "running", and at the end of its input asks for MIB of pinned memory at once; prints
// the number of the answer.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../programs/driver.h"

constexpr size_t mib = 1 << 20;

template <class Thing, class Take, class Free> static size_t fill(Take take, Free free) {
    std::vector<Thing> all;
    cudaError_t r;
    for (Thing one; (r = take(one)) == cudaSuccess;) all.push_back(one);
    REQUIRE(r == cudaErrorMemoryAllocation);
    cudaGetLastError();
    for (Thing& one : all) CHECK(free(one));
    return all.size();
}

__global__ void print() { printf("%063d\n", blockIdx.x); }
__global__ void wait_for(volatile int* word) {
    while (!*word) {}
}
__global__ void add(int* sum) { ++*sum; }

int main(int argc, char** argv) {
    REQUIRE(argc > 1);
    if (!strcmp(argv[1], "pinned"))
        for (int i = 0; i < 2; ++i)
            printf("%zu\n", 4 * fill<void*>([](void*& p) { return cudaMallocHost(&p, 4 * mib); },
                                            [](void* p) { return cudaFreeHost(p); }));
    if (!strcmp(argv[1], "events"))
        for (int i = 0; i < 2; ++i)
            printf("%zu\n", fill<cudaEvent_t>([](cudaEvent_t& e) { return cudaEventCreate(&e); },
                                              [](cudaEvent_t e) { return cudaEventDestroy(e); }));
    if (!strcmp(argv[1], "image")) {
        CHECK(cudaFree(nullptr));  // code is loaded into a context
        std::string image(256 * mib, ' ');
        CUmodule module;
        printf("%d\n", (int)entry<decltype(&cuModuleLoadData)>("cuModuleLoadData")(&module, image.c_str()));
    }
    if (!strcmp(argv[1], "print")) print<<<std::stoi(argv[2]), 1>>>();
    if (!strcmp(argv[1], "large")) {
        void* all = nullptr;
        CHECK(cudaFree(nullptr));
        printf("running\n"), fflush(stdout);
        while (getchar() != EOF) {}
        printf("answer %d\n", (int)cudaMallocHost(&all, std::stoull(argv[2]) * mib));
        cudaGetLastError();
    }
    if (!strcmp(argv[1], "queue")) {
        int *word, *sum, all = 0;
        CHECK(cudaMallocHost(&word, sizeof *word));
        CHECK(cudaMalloc(&sum, sizeof *sum));
        CHECK(cudaMemset(sum, 0, sizeof *sum));
        *word = 0;
        CHECK(cudaDeviceSynchronize());
        wait_for<<<1, 1>>>(word);
        for (int i = 0; i < std::stoi(argv[2]); ++i) add<<<1, 1>>>(sum);
        printf("running\n"), fflush(stdout);
        while (getchar() != EOF) {}
        *word = 1;
        CHECK(cudaMemcpy(&all, sum, sizeof all, cudaMemcpyDeviceToHost));
        REQUIRE(all == std::stoi(argv[2]));
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
