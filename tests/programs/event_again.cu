// SPDX-License-Identifier: Apache-2.0
// event_again.cu: an event that is recorded again, in another stream, while its first record waits behind a kernel.
// A stream that waits for it then waits for the second record alone, and goes on when that is done; what the first
// record does later changes nothing. And an event that work waits for in another stream: when that work is done, so is
// the event. And an event that is recorded by turns in two streams, whose work cannot end: a thread that looks all the
// time never finds it done.
#include <atomic>
#include <thread>

#include "check.h"

__global__ void wait_for(volatile int* flag) {
    while (*flag == 0) {}
}

int main() {
    volatile int* flag;
    void* device_flag;
    cudaStream_t held, idle;
    cudaEvent_t event;
    CHECK(cudaHostAlloc((void**)&flag, sizeof *flag, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device_flag, (void*)flag, 0));
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));

    *flag = 0;
    wait_for<<<1, 1, 0, held>>>((volatile int*)device_flag);
    CHECK(cudaEventRecord(event, held));
    REQUIRE(cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(cudaEventRecord(event, idle));
    CHECK(cudaEventSynchronize(event));
    REQUIRE(cudaStreamQuery(held) == cudaErrorNotReady);
    *flag = 1;
    CHECK(cudaStreamSynchronize(held));
    CHECK(cudaEventQuery(event));
    CHECK(cudaEventSynchronize(event));

    for (int i = 0; i < 500; i++) {
        CHECK(cudaMemsetAsync(device_flag, 0, sizeof *flag, held));
        CHECK(cudaEventRecord(event, held));
        CHECK(cudaStreamWaitEvent(idle, event, 0));
        CHECK(cudaStreamSynchronize(idle));
        CHECK(cudaEventQuery(event));
    }

    cudaEvent_t looked_at;
    CHECK(cudaEventCreateWithFlags(&looked_at, cudaEventDisableTiming));
    std::atomic<int> holds{0}, done{0};  // the round in which both streams wait, if they do
    std::atomic<bool> ends{false};
    std::thread looker([&] {
        while (!ends)
            if (const int round = holds; round)
                if (cudaEventQuery(looked_at) != cudaErrorNotReady && holds == round) done++;
    });
    for (int round = 1; round <= 20; round++) {
        *flag = 0;
        for (const cudaStream_t stream : {held, idle}) wait_for<<<1, 1, 0, stream>>>((volatile int*)device_flag);
        CHECK(cudaEventRecord(looked_at, held));
        holds = round;
        for (int i = 0; i < 100; i++) CHECK(cudaEventRecord(looked_at, i % 2 ? held : idle));
        holds = 0;
        *flag = 1;
        CHECK(cudaEventSynchronize(looked_at));
        CHECK(cudaStreamSynchronize(held));
    }
    ends = true;
    looker.join();
    REQUIRE(done == 0);

    CHECK(cudaEventDestroy(looked_at));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(held));
    CHECK(cudaStreamDestroy(idle));
    CHECK(cudaFreeHost((void*)flag));
    return verdict(0);
}
