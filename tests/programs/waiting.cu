// SPDX-License-Identifier: Apache-2.0
// waiting.cu: how a program's threads wait: as CUDA likes, awake, or asleep (cudaSetDeviceFlags, flags of a context, of
// an event). Each finds the end of a kernel that runs for longer than any thread stays awake, and the flags are those
// that were set. And many threads that wait for the device at the same time: each finds its own work done, in a stream
// of its own and in one that it shares with another thread.
#include <thread>
#include <vector>

#include "check.h"
#include "driver.h"

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {}
}

static volatile int* flag;
static void* device_flag;

// A kernel that ends after some time, while this thread waits for it.
template <class Wait> static void long_wait(Wait wait) {
    *flag = 0;
    wait_for<<<1, 1>>>((volatile int*)device_flag);
    std::thread later([] { std::this_thread::sleep_for(std::chrono::milliseconds(400)), *flag = 1; });
    wait();
    REQUIRE(*flag == 1);
    later.join();
}

__global__ void set(volatile int* word, int value) { *word = value; }

static void all_wait_for_the_device() {
    constexpr int count = 8;
    int *words, *device_words;
    CHECK(cudaHostAlloc((void**)&words, count * sizeof *words, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void**)&device_words, words, 0));
    cudaStream_t streams[count];
    for (cudaStream_t& stream : streams) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<std::thread> threads;
    for (int t = 0; t < count; t++)
        threads.emplace_back([=, stream = streams[t / 2]] {
            volatile int& word = words[t];
            for (int i = 1; i <= 300; i++) {
                set<<<1, 1, 0, stream>>>(device_words + t, i);
                CHECK(cudaDeviceSynchronize());
                REQUIRE(word == i);
            }
        });
    for (std::thread& thread : threads) thread.join();
    for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(words));
}

int main() {
    unsigned flags = 0;
    int active = 0;
    CHECK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));  // before there is a context
    const auto get_state = entry<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
    const auto get_flags = entry<CUresult (*)(unsigned*)>("cuCtxGetFlags");
    CHECK(cudaHostAlloc((void**)&flag, sizeof *flag, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_flag, (void*)flag, 0));
    for (const unsigned schedule :
         {cudaDeviceScheduleBlockingSync, cudaDeviceScheduleSpin, cudaDeviceScheduleYield, cudaDeviceScheduleAuto}) {
        CHECK(cudaSetDeviceFlags(schedule));
        CHECK(cudaGetDeviceFlags(&flags));
        REQUIRE((flags & cudaDeviceScheduleMask) == schedule);
        DRIVER(get_state(0, &flags, &active));
        REQUIRE((flags & CU_CTX_SCHED_MASK) == schedule && active);
        DRIVER(get_flags(&flags));
        REQUIRE((flags & CU_CTX_SCHED_MASK) == schedule);
        long_wait([] { CHECK(cudaDeviceSynchronize()); });
    }
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming));
    long_wait([=] {
        CHECK(cudaEventRecord(event));
        CHECK(cudaEventSynchronize(event));
    });
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFreeHost((void*)flag));

    all_wait_for_the_device();

    CUcontext own;
    DRIVER(
        entry<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 10000)(&own, CU_CTX_SCHED_BLOCKING_SYNC, 0));
    DRIVER(get_flags(&flags));
    REQUIRE((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    DRIVER(entry<CUresult (*)(CUcontext)>("cuCtxDestroy")(own));
    return verdict(0);
}
