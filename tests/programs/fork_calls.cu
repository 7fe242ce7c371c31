// SPDX-License-Identifier: Apache-2.0
// fork_calls.cu: a child that was forked while other threads were in the middle of CUDA's calls gets an error from
// each of its own, and waits for none: what the others held is held forever in it.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

__global__ void nothing() {}
static void called(void*) {}

static void work(int which, const std::atomic<bool>& stop) {
    cudaStream_t stream, other;
    cudaEvent_t event;
    void* p;
    CHECK(cudaStreamCreate(&stream));
    while (!stop) switch (which) {
            case 0:
                CHECK(cudaLaunchHostFunc(stream, called, nullptr));
                CHECK(cudaStreamSynchronize(stream));
                break;
            case 1:
                CHECK(cudaStreamCreate(&other));
                nothing<<<1, 1, 0, other>>>();
                CHECK(cudaDeviceSynchronize());
                CHECK(cudaStreamDestroy(other));
                break;
            case 2:
                CHECK(cudaMalloc(&p, 1000));
                CHECK(cudaEventCreate(&event));
                CHECK(cudaEventRecord(event, stream));
                CHECK(cudaEventDestroy(event));
                CHECK(cudaFree(p));
        }
    CHECK(cudaStreamDestroy(stream));
}

int main() {
    CHECK(cudaFree(nullptr));
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([&stop, i] { work(i, stop); });
    int wrong = 0;
    for (int i = 0; i < 40 && !wrong; i++) {
        const pid_t child = fork();
        if (!child) {
            alarm(20);  // a call that waits
            cudaStream_t stream;
            cudaEvent_t event;
            void* p;
            int errors = 0;
            errors += cudaMalloc(&p, 100) != cudaSuccess;
            errors += cudaLaunchHostFunc(nullptr, called, nullptr) != cudaSuccess;
            errors += cudaStreamCreate(&stream) != cudaSuccess;
            errors += cudaEventCreate(&event) != cudaSuccess;
            nothing<<<1, 1>>>();
            errors += cudaGetLastError() != cudaSuccess;
            errors += cudaDeviceSynchronize() != cudaSuccess;
            _exit(errors == 6 ? 0 : 1);
        }
        int status = -1;
        wrong = waitpid(child, &status, 0) != child || status != 0;
        if (wrong) printf("child %d: status %x\n", i, status);
    }
    stop = true;
    for (auto& thread : threads) thread.join();
    return verdict(wrong);
}
