// SPDX-License-Identifier: Apache-2.0
// waiting.cu: how a program's threads wait: as CUDA likes, awake, or asleep (cudaSetDeviceFlags, flags of a context, of
// an event). Each finds the end of a kernel that runs for longer than any thread stays awake, and the flags are those
// that were set.
#include <thread>

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

    CUcontext own;
    DRIVER(
        entry<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 10000)(&own, CU_CTX_SCHED_BLOCKING_SYNC, 0));
    DRIVER(get_flags(&flags));
    REQUIRE((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    DRIVER(entry<CUresult (*)(CUcontext)>("cuCtxDestroy")(own));
    return verdict(0);
}
