// SPDX-License-Identifier: Apache-2.0
// context_events.cu: events of a context as a whole: recorded behind all of its streams' work, and waited for by all
// that it is given later.
#include <chrono>
#include <thread>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

__global__ void mark(volatile int* done) { *done = 1; }

static volatile int* word;  // [0]: the gate, [1]: done behind it, [2]: done later; in memory that both reach
static int* on_device;

static void hold(cudaStream_t stream) {
    FUNCTION(cuStreamWaitValue32, 12000);
    word[0] = word[1] = word[2] = 0;
    DRIVER(p_cuStreamWaitValue32((CUstream)stream, (CUdeviceptr)on_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
    mark<<<1, 1, 0, stream>>>(on_device + 1);
}

int main() {
    FUNCTION(cuCtxGetCurrent, 4000);
    FUNCTION(cuCtxRecordEvent, 12050);
    FUNCTION(cuCtxWaitEvent, 12050);
    CHECK(cudaHostAlloc((void**)&word, 4096, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void**)&on_device, (void*)word, 0));
    cudaStream_t a, b;
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    mark<<<1, 1, 0, a>>>(on_device + 1);  // code is loaded now
    CHECK(cudaDeviceSynchronize());
    CUcontext context = nullptr;
    DRIVER(p_cuCtxGetCurrent(&context));
    const auto open_soon = [] {
        return std::thread([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)), word[0] = 1; });
    };

    DRIVER(p_cuCtxRecordEvent(context, event));
    CHECK(cudaEventSynchronize(event));
    for (int way = 0; way < 2; ++way) {
        hold(a);
        DRIVER(p_cuCtxRecordEvent(context, event));
        REQUIRE(cudaEventQuery(event) == cudaErrorNotReady);
        std::thread opener = open_soon();
        if (way == 0) CHECK(cudaEventSynchronize(event));
        else {
            CHECK(cudaStreamWaitEvent(b, event, 0));
            CHECK(cudaStreamSynchronize(b));
        }
        REQUIRE(word[1] == 1);
        opener.join();
        CHECK(cudaEventQuery(event));
    }
    // The event of a stream again: what the context recorded is not its any more.
    hold(a);
    CHECK(cudaEventRecord(event, b));
    CHECK(cudaEventSynchronize(event));
    REQUIRE(word[1] == 0);
    word[0] = 1;
    CHECK(cudaDeviceSynchronize());

    hold(a);
    CHECK(cudaEventRecord(event, a));
    DRIVER(p_cuCtxWaitEvent(context, event));
    mark<<<1, 1, 0, b>>>(on_device + 2);
    REQUIRE(cudaStreamQuery(b) == cudaErrorNotReady);
    REQUIRE(word[2] == 0);
    std::thread opener = open_soon();
    CHECK(cudaStreamSynchronize(b));
    REQUIRE(word[1] == 1 && word[2] == 1);
    opener.join();
    REQUIRE(p_cuCtxRecordEvent(context, nullptr) != CUDA_SUCCESS);
    return verdict(0);
}
