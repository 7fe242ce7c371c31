// SPDX-License-Identifier: Apache-2.0
// bystanders.cu: what one thread waits for must not hold up another. A kernel waits for a flag; one thread frees
// memory, which waits for the kernel, others wait for it too; only then does the last one set the flag, and by way of
// the device: a malloc, an allocation, a copy. And memory is freed while another thread notes down a graph, which must
// not hurt it. (NVIDIA's own library does not come through all of this:
// 580.159 hangs.)
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "check.h"

__global__ void hold(const volatile int* flag) {
    while (*flag == 0) {}
}
__global__ void say() { printf("a kernel that prints\n"); }
__global__ void add(int* sum) { ++*sum; }

static void one_sets_what_all_wait_for() {
    int *flag, *freed, one = 1;
    cudaStream_t held, other;
    CHECK(cudaMalloc(&flag, sizeof *flag));
    CHECK(cudaMemset(flag, 0, sizeof *flag));
    CHECK(cudaMalloc(&freed, 1 << 20));
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    say<<<1, 1, 0, held>>>();
    CHECK(cudaDeviceSynchronize());
    hold<<<1, 1, 0, held>>>(flag);
    CHECK(cudaGetLastError());
    std::thread waiting[] = {std::thread([=] { CHECK(cudaFree(freed)); }),
                             std::thread([=] { CHECK(cudaStreamSynchronize(held)); }),
                             std::thread([=] { CHECK(cudaDeviceSynchronize()); })};
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // all wait by now
    char* block = static_cast<char*>(malloc(300 << 20));
    block[0] = block[(300 << 20) - 1] = 1;
    CHECK(cudaMemcpyAsync(flag, &one, sizeof one, cudaMemcpyHostToDevice, other));
    for (std::thread& t : waiting) t.join();
    free(block);
    CHECK(cudaFree(flag));
    CHECK(cudaStreamDestroy(held));
    CHECK(cudaStreamDestroy(other));
}

// The driver has to wait for the GPU in some of its calls. A malloc of another thread does not.
static void a_malloc_waits_for_nobody() {
    int *flag, *there;
    cudaArray_t array;
    cudaStream_t held;
    const cudaChannelFormatDesc words = cudaCreateChannelDesc<int>();
    CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
    *flag = 0;
    CHECK(cudaHostGetDevicePointer(&there, flag, 0));
    CHECK(cudaMallocArray(&array, &words, 100, 100));
    CHECK(cudaStreamCreate(&held));
    hold<<<1, 1, 0, held>>>(there);
    CHECK(cudaGetLastError());
    std::thread waiting([=] { CHECK(cudaFreeArray(array)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it waits by now
    char* blocks[4];
    for (char*& block : blocks) {  // more than a heap has in store
        block = static_cast<char*>(malloc(300 << 20));
        block[0] = block[(300 << 20) - 1] = 1;
    }
    *static_cast<volatile int*>(flag) = 1;
    waiting.join();
    for (char* block : blocks) free(block);
    char* const again = static_cast<char*>(malloc(500 << 20));  // now that the host has time
    CHECK(cudaMemcpy(there, again, sizeof *flag, cudaMemcpyDefault));
    free(again);
    CHECK(cudaFreeHost(flag));
    CHECK(cudaStreamDestroy(held));
}

static int a_capture_is_left_alone() {
    int* sum;
    cudaStream_t noted, busy;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    CHECK(cudaMemset(sum, 0, sizeof *sum));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamCreateWithFlags(&noted, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    std::atomic<bool> over{false};
    std::thread freeing([&] {
        while (!over) {
            int* scratch;
            CHECK(cudaMalloc(&scratch, sizeof *scratch));
            add<<<1, 1, 0, busy>>>(scratch);
            CHECK(cudaFree(scratch));
        }
    });
    constexpr int rounds = 200;
    for (int i = 0; i < rounds; ++i) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        add<<<1, 1, 0, noted>>>(sum);
        CHECK(cudaStreamBeginCapture(noted, cudaStreamCaptureModeThreadLocal));
        add<<<1, 1, 0, noted>>>(sum);
        add<<<1, 1, 0, noted>>>(sum);
        CHECK(cudaStreamEndCapture(noted, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphLaunch(exec, noted));
        CHECK(cudaStreamSynchronize(noted));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    over = true;
    freeing.join();
    int counted;
    CHECK(cudaMemcpy(&counted, sum, sizeof counted, cudaMemcpyDeviceToHost));
    return counted - 3 * rounds;
}

int main() {
    a_malloc_waits_for_nobody();
    one_sets_what_all_wait_for();
    return verdict(a_capture_is_left_alone());
}
