// SPDX-License-Identifier: Apache-2.0
// full_queue: more work than any queue holds is given to a GPU that does not move, by two threads at once, while a
// third waits for it in cudaFree. Then it does move. A thread that waits for room must come through, and nothing may be
// lost or done twice.
#include <chrono>
#include <thread>

#include "check.h"

__global__ void wait_until_set(const volatile int* flag) {
    while (!*flag) {}
}
__global__ void add(unsigned* sum) { ++*sum; }

constexpr unsigned launches = 5000;

static void post(cudaStream_t stream, const int* flag, unsigned* sum) {
    wait_until_set<<<1, 1, 0, stream>>>(flag);
    for (unsigned i = 0; i < launches; ++i) add<<<1, 1, 0, stream>>>(sum);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
}

int main() {
    int *flag, *device_flag;
    unsigned *sums, *scratch, counted[2];
    cudaStream_t streams[2];
    CHECK(cudaHostAlloc(&flag, sizeof *flag, cudaHostAllocMapped));
    *flag = 0;
    CHECK(cudaHostGetDevicePointer(&device_flag, flag, 0));
    CHECK(cudaMalloc(&sums, sizeof counted));
    CHECK(cudaMalloc(&scratch, 1 << 20));
    add<<<1, 1>>>(scratch);  // its code is there from now on
    CHECK(cudaMemset(sums, 0, sizeof counted));
    for (cudaStream_t& s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    wait_until_set<<<1, 1, 0, streams[0]>>>(device_flag);
    CHECK(cudaGetLastError());
    std::thread threads[] = {std::thread([=] { CHECK(cudaFree(scratch)); }),
                             std::thread(post, streams[0], device_flag, sums),
                             std::thread(post, streams[1], device_flag, sums + 1)};
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // all wait by now
    *static_cast<volatile int*>(flag) = 1;
    for (std::thread& t : threads) t.join();
    CHECK(cudaMemcpy(counted, sums, sizeof counted, cudaMemcpyDeviceToHost));
    std::printf("%u and %u of %u launches\n", counted[0], counted[1], launches);
    return verdict(counted[0] != launches || counted[1] != launches);
}
