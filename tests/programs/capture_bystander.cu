// SPDX-License-Identifier: Apache-2.0
// capture_bystander: a thread that frees memory waits for all work, and other threads capture streams that the legacy
// stream waits for, in the mode that concerns their own threads alone. No thread may notice the others.
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int* to) { atomicAdd(to, 1); }

int main() {
    int* sum;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    std::atomic<bool> over{false};
    std::vector<std::thread> capturing;
    for (int i = 0; i < 3; ++i)
        capturing.emplace_back([&, i] {
            cudaStream_t stream;
            CHECK(cudaStreamCreate(&stream));
            while (!over) {
                cudaGraph_t graph;
                CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
                CHECK(cudaStreamEndCapture(stream, &graph));
                CHECK(cudaGraphDestroy(graph));
                usleep(100 * (i + 1));
            }
            CHECK(cudaStreamDestroy(stream));
        });
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 2000; ++i) {
        int* device;
        CHECK(cudaMalloc(&device, 1 << 20));
        CHECK(cudaMemsetAsync(device, 0, 1 << 20, stream));
        add<<<1, 1, 0, stream>>>(sum);
        CHECK(cudaFree(device));
    }
    over = true;
    for (std::thread& each : capturing) each.join();
    puts("PASSED");
}
