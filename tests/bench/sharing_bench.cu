// SPDX-License-Identifier: Apache-2.0
// sharing_bench.cu: a client that wants all of a GPU, or very little of it, beside others (tests/bench/sharing).
//
//   sharing_bench greedy SECONDS MICROSECONDS   launches kernels of about that time as fast as it can; prints how many
//                                               were done, and their rounds, by which two clients can be compared
//   sharing_bench light SECONDS MICROSECONDS    one such kernel and a wait each millisecond; prints the waits' times:
//                                               half of them, 99 %, the longest
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(call)                                                                          \
    if (cudaError_t e = (call); e != cudaSuccess) {                                          \
        std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e)); \
        std::exit(1);                                                                        \
    }

__global__ void work(long rounds, unsigned long long* done) {
    float x = threadIdx.x;
    for (long i = 0; i < rounds; ++i) x = x * 1.0001f + 0.5f;
    if (threadIdx.x == 0 && blockIdx.x == 0) *done += 1 + (x == -1.f);
}

using Clock = std::chrono::steady_clock;
static double seconds_since(Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
}

int main(int argc, char** argv) {
    if (argc != 4) return std::fprintf(stderr, "usage: sharing_bench greedy|light SECONDS MICROSECONDS\n"), 2;
    const bool greedy = !std::strcmp(argv[1], "greedy");
    const double seconds = std::atof(argv[2]), wanted = std::atof(argv[3]);
    unsigned long long* done;
    CHECK(cudaMalloc(&done, sizeof *done));
    CHECK(cudaMemset(done, 0, sizeof *done));
    int processors = 0;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    const int blocks = greedy ? processors : 1;  // all of the GPU
    // How many rounds such a kernel has: by the shortest of some runs, for others may be at work.
    long rounds = 1000;
    work<<<blocks, 256>>>(rounds, done);
    CHECK(cudaDeviceSynchronize());
    double shortest = 1e9;
    for (int i = 0; i < 30; ++i) {
        const auto begun = Clock::now();
        work<<<blocks, 256>>>(100'000, done);
        CHECK(cudaDeviceSynchronize());
        shortest = std::min(shortest, seconds_since(begun) * 1e6);
    }
    rounds = std::max(1L, static_cast<long>(100'000 * wanted / shortest));
    CHECK(cudaMemset(done, 0, sizeof *done));
    CHECK(cudaDeviceSynchronize());
    std::printf("ready\n"), std::fflush(stdout);
    if (std::getchar() == EOF) return 1;  // all begin together
    const auto begun = Clock::now();
    if (greedy) {
        while (seconds_since(begun) < seconds) {
            for (int i = 0; i < 16; ++i) work<<<blocks, 256>>>(rounds, done);
            // Enough for it to have always something to do, no more than a program keeps under way.
            static cudaEvent_t events[8];
            static int next = 0;
            if (!events[next]) CHECK(cudaEventCreateWithFlags(&events[next], cudaEventDisableTiming));
            CHECK(cudaEventRecord(events[next]));
            next = (next + 1) % 8;
            if (events[next]) CHECK(cudaEventSynchronize(events[next]));
        }
        unsigned long long count = 0;
        static cudaStream_t side;
        CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        CHECK(cudaMemcpyAsync(&count, done, sizeof count, cudaMemcpyDeviceToHost,
                              side));  // those that are under way do not count
        CHECK(cudaStreamSynchronize(side));
        std::printf("%llu %.0f\n", count, static_cast<double>(count) * static_cast<double>(rounds));
    } else {
        std::vector<double> waits;
        for (int i = 0; seconds_since(begun) < seconds; ++i) {
            std::this_thread::sleep_until(begun + std::chrono::milliseconds(i));
            const auto asked = Clock::now();
            work<<<blocks, 256>>>(rounds, done);
            CHECK(cudaDeviceSynchronize());
            waits.push_back(seconds_since(asked) * 1e3);
        }
        std::sort(waits.begin(), waits.end());
        std::printf("%.3f %.3f %.3f\n", waits[waits.size() / 2], waits[waits.size() * 99 / 100], waits.back());
    }
    std::fflush(stdout);
    std::_Exit(0);
}
