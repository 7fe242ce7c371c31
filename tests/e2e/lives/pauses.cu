// SPDX-License-Identifier: Apache-2.0
// pauses: a program to pause. It says "running", waits for a line, and then says "right" if all is as it was.
//   pauses hold MIB    with so much device memory, of a known content
//   pauses waits       whose GPU waits for a word that the program writes behind the line
//   pauses shows       which lets other processes open its memory
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../programs/driver.h"

__global__ void fill(unsigned* words, unsigned seed, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
        words[i] = unsigned(i) * 2654435761u + seed;
}
__global__ void compare(const unsigned* words, unsigned seed, size_t count, unsigned* wrong) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
        if (words[i] != unsigned(i) * 2654435761u + seed) atomicAdd(wrong, 1u);
}

static void wait_for_a_line() {
    std::printf("running\n");
    std::fflush(stdout);
    char line[16];
    if (!std::fgets(line, sizeof line, stdin)) std::exit(3);
}

int main(int argc, char** argv) {
    const char* const mode = argc > 1 ? argv[1] : "hold";
    const size_t bytes = size_t(argc > 2 ? std::atoi(argv[2]) : 16) << 20, count = bytes / 4;
    unsigned *words = nullptr, *wrong = nullptr;
    CHECK(cudaMalloc(&words, bytes));
    CHECK(cudaMalloc(&wrong, 4));
    CHECK(cudaMemset(wrong, 0, 4));
    fill<<<8, 64>>>(words, 7, count);
    CHECK(cudaDeviceSynchronize());
    if (!std::strcmp(mode, "waits")) {
        cudaStream_t waits, writes;
        CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&writes, cudaStreamNonBlocking));
        const auto wait_value = entry<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32");
        const auto write_value = entry<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32");
        const CUdeviceptr word = reinterpret_cast<CUdeviceptr>(wrong);
        DRIVER(wait_value(waits, word, 5, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(cudaMemsetAsync(words, 0, 4, writes));
        CHECK(cudaStreamSynchronize(writes));  // the GPU has the wait
        wait_for_a_line();
        DRIVER(write_value(writes, word, 5, 0));
        CHECK(cudaDeviceSynchronize());
        std::printf("right\n");
        return 0;
    }
    if (!std::strcmp(mode, "shows")) {
        cudaIpcMemHandle_t handle;
        CHECK(cudaIpcGetMemHandle(&handle, words));
    }
    wait_for_a_line();
    compare<<<8, 64>>>(words, 7, count, wrong);
    unsigned n = 1;
    CHECK(cudaMemcpy(&n, wrong, 4, cudaMemcpyDeviceToHost));
    std::printf(n == 0 ? "right\n" : "%u words are wrong\n", n);
    return n != 0;
}
