// SPDX-License-Identifier: Apache-2.0
// stream_waits.cu: whose work a wait is for. Each thread's own default stream is another one; and the work of a stream
// that was destroyed goes on, and is waited for with the device.
#include <chrono>
#include <thread>

#include "check.h"

__global__ void hold(volatile int* flag, int* done) {
    while (*flag == 0) {}
    *done = 1;
}

static void soon(volatile int* flag) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    *flag = 1;
}

int main() {
    int *shared, *device;  // [0]: the flag, [1]: done
    CHECK(cudaHostAlloc((void**)&shared, 2 * sizeof(int), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void**)&device, shared, 0));
    volatile int *flag = shared, *done = shared + 1;

    *flag = *done = 0;
    hold<<<1, 1, 0, cudaStreamPerThread>>>(device, device + 1);
    std::thread([] { CHECK(cudaStreamSynchronize(cudaStreamPerThread)); }).join();
    REQUIRE(*done == 0);
    std::thread release(soon, flag);
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    REQUIRE(*done == 1);
    release.join();

    for (unsigned kind : {cudaStreamDefault, cudaStreamNonBlocking}) {
        cudaStream_t stream;
        *flag = *done = 0;
        CHECK(cudaStreamCreateWithFlags(&stream, kind));
        hold<<<1, 1, 0, stream>>>(device, device + 1);
        CHECK(cudaStreamDestroy(stream));
        REQUIRE(*done == 0);
        std::thread later(soon, flag);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(*done == 1);
        later.join();
    }
    CHECK(cudaFreeHost(shared));
    return verdict(0);
}
