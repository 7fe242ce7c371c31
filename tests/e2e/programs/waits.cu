// SPDX-License-Identifier: Apache-2.0
// waits.cu: for test_waits.py. Waits whose answer is not the GPU's: each must end, and say why.
#include <unistd.h>

#include <cstring>

#include "../../programs/driver.h"

static int say(const char* what, int result) { return printf("%s: %d\n", what, result), fflush(stdout), 0; }

// The record is refused before it is posted.
static int event() {
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamDestroy(stream));
    say("recorded", cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
    return say("reached", cudaEventSynchronize(event));
}

// The stream is the null stream of a context that the worker does not know any more.
static int context() {
    CUcontext context, last;
    CUdevice device = 0;
    DRIVER(entry<CUresult (*)(unsigned)>("cuInit")(0));
    DRIVER(entry<CUresult (*)(CUdevice*, int)>("cuDeviceGet")(&device, 0));
    DRIVER(entry<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 3020)(&context, 0, device));
    DRIVER(entry<CUresult (*)(CUcontext)>("cuCtxPushCurrent")(context));
    DRIVER(entry<CUresult (*)(CUcontext)>("cuCtxDestroy")(context));
    DRIVER(entry<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&last));
    REQUIRE(last == context);
    const CUresult r = entry<CUresult (*)(CUstream)>("cuStreamSynchronize")(nullptr);
    return say("refused", r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

// Nothing is asked of the worker while nothing new has been posted; so nothing but its end can tell.
static int idle() {
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event));
    CHECK(cudaDeviceSynchronize());
    printf("running\n"), fflush(stdout);
    cudaError_t r = cudaSuccess;
    for (int i = 0; i < 1000 && r == cudaSuccess; ++i) usleep(10000), r = cudaStreamSynchronize(0);
    say("stream", r != cudaSuccess);
    say("event", cudaEventQuery(event) != cudaSuccess);
    return say("event again", cudaEventSynchronize(event) != cudaSuccess);
}

// The device is waited for a hundred times, each time behind a kernel in one stream; the others had their work before.
__global__ void nothing() {}
static int streams() {
    cudaStream_t all[64];
    for (auto& s : all) {
        CHECK(cudaStreamCreateWithFlags(&s, &s - all < 32 ? cudaStreamDefault : cudaStreamNonBlocking));
        nothing<<<1, 1, 0, s>>>();
    }
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; ++i) {
        nothing<<<1, 1, 0, i % 2 ? all[i % 64] : 0>>>();
        CHECK(cudaDeviceSynchronize());
    }
    return say("waited", 100);
}

int main(int, char** argv) {
    if (!strcmp(argv[1], "streams")) return streams();
    if (!strcmp(argv[1], "event")) return event();
    if (!strcmp(argv[1], "context")) return context();
    return idle();
}
