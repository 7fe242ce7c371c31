// SPDX-License-Identifier: Apache-2.0
// shows.cu: for test_sharing.py. `own`: an int in device memory and an event that is never reached, shown by their
// handles. `open MEMORY EVENT`: what they are to another process. `wait MEMORY EVENT`: waits for the event, then looks
// at the memory.
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <string>

#include "../../programs/check.h"

__global__ void hold(volatile int* flag) {
    while (*flag == 0) {}
}

template <class T> static std::string text(const T& handle) {
    std::string all;
    char digits[3];
    for (unsigned char c : handle.reserved) snprintf(digits, sizeof digits, "%02x", c), all += digits;
    return all;
}
template <class T> static T handle(const char* text) {
    T it{};
    for (size_t i = 0; i < sizeof it.reserved && text[2 * i]; ++i) {
        unsigned value = 0;
        sscanf(text + 2 * i, "%2x", &value);
        it.reserved[i] = (char)value;
    }
    return it;
}

static int own() {
    int *data, *flag;
    cudaEvent_t event;
    cudaStream_t stream;
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t reached;
    const int value = 42;
    CHECK(cudaMalloc((void**)&data, sizeof *data));
    CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice));
    CHECK(cudaHostAlloc((void**)&flag, sizeof *flag, cudaHostAllocMapped));
    *flag = 0;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    hold<<<1, 1, 0, stream>>>(flag);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaIpcGetMemHandle(&memory, data));
    CHECK(cudaIpcGetEventHandle(&reached, event));
    printf("running\nhandles %s %s\n", text(memory).c_str(), text(reached).c_str());
    fflush(stdout);
    for (;;) pause();
}

static void show_memory(const int* data) {
    int value = 0;
    CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
    printf("memory %d", value);
}

int main(int argc, char** argv) {
    if (argc == 2 && !strcmp(argv[1], "own")) return own();
    REQUIRE(argc == 4);
    int* data = nullptr;
    cudaEvent_t event = nullptr;
    const auto got_memory =
        cudaIpcOpenMemHandle((void**)&data, handle<cudaIpcMemHandle_t>(argv[2]), cudaIpcMemLazyEnablePeerAccess);
    const auto got_event = cudaIpcOpenEventHandle(&event, handle<cudaIpcEventHandle_t>(argv[3]));
    if (!strcmp(argv[1], "wait")) {
        CHECK(got_memory);
        CHECK(got_event);
        CHECK(cudaStreamWaitEvent(0, event, 0));
        printf("running\n"), fflush(stdout);
        CHECK(cudaDeviceSynchronize());
    }
    if (got_memory == cudaSuccess) show_memory(data);
    else printf("memory refused");
    printf(" event %s\n", got_event != cudaSuccess                     ? "refused"
                          : cudaEventQuery(event) == cudaErrorNotReady ? "pending"
                                                                       : "reached");
    return 0;
}
