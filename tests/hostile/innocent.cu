// SPDX-License-Identifier: Apache-2.0
// innocent.cu: a client that does what programs do: copies, launches, waits, copies back and checks, in a loop, and
// takes the time of each round. SIGUSR1 ends a phase, SIGTERM the last one: each is a line of JSON. For campaigns in
// which others lie (tests/hostile).
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <unistd.h>
#include <vector>

static volatile sig_atomic_t next_phase = 0, last = 0;

__global__ void mix(const unsigned* from, unsigned* to, unsigned n, unsigned key) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = (from[i] ^ key) * 2654435761u + i;
}

static void fail(cudaError_t error) {
    if (error == cudaSuccess) return;
    printf("{\"error\": \"%s\"}\n", cudaGetErrorName(error));
    exit(3);
}

int main() {
    signal(SIGUSR1, [](int) { next_phase = 1; });
    signal(SIGTERM, [](int) { last = 1; });
    const unsigned n = 16384;
    std::vector<unsigned> from(n), to(n);
    unsigned *in = nullptr, *out = nullptr;
    cudaStream_t stream = nullptr;
    fail(cudaMalloc((void**)&in, n * sizeof *in));
    fail(cudaMalloc((void**)&out, n * sizeof *out));
    fail(cudaStreamCreate(&stream));
    unsigned key = 1, wrong = 0, phase = 0;
    std::vector<double> times;
    while (true) {
        for (unsigned i = 0; i < n; ++i) from[i] = key + 7 * i;
        const auto begun = std::chrono::steady_clock::now();
        fail(cudaMemcpyAsync(in, from.data(), n * sizeof *in, cudaMemcpyHostToDevice, stream));
        mix<<<n / 256, 256, 0, stream>>>(in, out, n, key);
        fail(cudaMemcpyAsync(to.data(), out, n * sizeof *out, cudaMemcpyDeviceToHost, stream));
        fail(cudaStreamSynchronize(stream));
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count());
        for (unsigned i = 0; i < n; ++i) wrong += to[i] != (from[i] ^ key) * 2654435761u + i;
        if (key++ == 1) printf("running\n"), fflush(stdout);
        if (next_phase || last) {
            std::sort(times.begin(), times.end());
            const auto at = [&](double part) { return times[static_cast<size_t>(part * (times.size() - 1))]; };
            printf(
                "{\"phase\": %u, \"rounds\": %zu, \"wrong\": %u, \"p50_us\": %.0f, \"p90_us\": %.0f, \"p99_us\": %.0f, "
                "\"max_us\": %.0f}\n",
                phase++, times.size(), wrong, at(0.5), at(0.9), at(0.99), times.back());
            fflush(stdout);
            if (last) return wrong != 0;
            next_phase = 0, times.clear();
        }
        usleep(500);
    }
}
