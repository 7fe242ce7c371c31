// SPDX-License-Identifier: Apache-2.0
// host_functions: a function of the program's that a stream or a graph runs may not call CUDA. Each call there is
// refused (cudaErrorNotPermitted) and changes nothing, also where the call would wait for the function's own stream.
// Calls that ask nothing of a device are answered.
#include <string.h>

#include <vector>

#include "driver.h"

__global__ void add(int* to) { ++*to; }

struct Answer {
    const char* call;
    int got, expected;
};
struct Asked {
    cudaStream_t stream, other;
    cudaEvent_t event;
    cudaGraphExec_t exec;
    int* device;
    int* pinned;
    std::vector<Answer> answers;
    int runs = 0;
};

static void CUDART_CB nothing(void*) {}

static void ask(Asked& a) {
    ++a.runs;
    a.answers.clear();
    const auto expect = [&](const char* call, int got, int expected) { a.answers.push_back({call, got, expected}); };
#define REFUSED(call) expect(#call, call, cudaErrorNotPermitted)
#define ANSWERED(call) expect(#call, call, cudaSuccess)
    void* p = nullptr;
    int number = 0;
    size_t one = 0, two = 0;
    char memory[64];
    cudaStream_t stream;
    cudaEvent_t event;
    REFUSED(cudaStreamSynchronize(a.stream));
    REFUSED(cudaStreamSynchronize(nullptr));
    REFUSED(cudaStreamSynchronize(cudaStreamPerThread));
    REFUSED(cudaDeviceSynchronize());
    ANSWERED(cudaEventSynchronize(a.event));
    REFUSED(cudaMemcpy(memory, a.device, 4, cudaMemcpyDeviceToHost));
    REFUSED(cudaMemcpyAsync(a.pinned, a.device, 4, cudaMemcpyDeviceToHost, a.stream));
    REFUSED(cudaMemset(a.device, 0, 4));
    REFUSED(cudaMemsetAsync(a.device, 0, 4, a.stream));
    REFUSED(cudaMalloc(&p, 1000));
    REFUSED(cudaMallocAsync(&p, 1000, a.stream));
    REFUSED(cudaMallocHost(&p, 1000));
    REFUSED(cudaMallocManaged(&p, 1000));
    REFUSED(cudaHostRegister(memory, sizeof memory, 0));
    REFUSED(cudaFree(a.device));
    REFUSED(cudaFree(nullptr));
    REFUSED(cudaFreeHost(a.pinned));
    REFUSED(cudaMemGetInfo(&one, &two));
    REFUSED(cudaStreamQuery(a.other));
    REFUSED(cudaEventQuery(a.event));
    REFUSED(cudaStreamCreate(&stream));
    REFUSED(cudaEventCreate(&event));
    REFUSED(cudaEventRecord(a.event, a.other));
    REFUSED(cudaStreamWaitEvent(a.other, a.event));
    REFUSED(cudaStreamDestroy(a.other));
    REFUSED(cudaEventDestroy(a.event));
    REFUSED(cudaLaunchHostFunc(a.other, nothing, nullptr));
    REFUSED(cudaGraphLaunch(a.exec, a.other));
    REFUSED(cudaSetDevice(0));
    REFUSED(cudaDeviceReset());
    add<<<1, 1, 0, a.other>>>(a.device);
    REFUSED(cudaGetLastError());
    ANSWERED(cudaDriverGetVersion(&number));
    ANSWERED(cudaRuntimeGetVersion(&number));
    ANSWERED(cudaGetDeviceCount(&number));
    ANSWERED(strcmp(cudaGetErrorName(cudaErrorNotPermitted), "cudaErrorNotPermitted"));
}
static void CUDART_CB function(void* asked) { ask(*static_cast<Asked*>(asked)); }
static void CUDART_CB callback(cudaStream_t, cudaError_t error, void* asked) {
    ask(*static_cast<Asked*>(asked));
    static_cast<Asked*>(asked)->answers.push_back({"the callback's own", error, cudaSuccess});
}

int main() {
    Asked asked{};
    CHECK(cudaStreamCreate(&asked.stream));
    CHECK(cudaStreamCreateWithFlags(&asked.other, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&asked.event));
    CHECK(cudaMalloc(&asked.device, sizeof *asked.device));
    CHECK(cudaMallocHost(&asked.pinned, sizeof *asked.pinned));
    CHECK(cudaMemset(asked.device, 0, sizeof *asked.device));
    cudaGraph_t graph, other_graph;
    cudaGraphNode_t node;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    const cudaHostNodeParams host{function, &asked};
    CHECK(cudaGraphAddHostNode(&node, graph, nullptr, 0, &host));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphCreate(&other_graph, 0));
    CHECK(cudaGraphInstantiate(&asked.exec, other_graph, 0));
    CHECK(cudaDeviceSynchronize());

    int wrong = 0;
    const auto look = [&](const char* where) {
        CHECK(cudaStreamSynchronize(asked.stream));
        for (const Answer& a : asked.answers)
            if (a.got != a.expected) printf("%s: %s: %d\n", where, a.call, a.got), ++wrong;
    };
    CHECK(cudaLaunchHostFunc(asked.stream, function, &asked));
    look("cudaLaunchHostFunc");
    CHECK(cudaStreamAddCallback(asked.stream, callback, &asked, 0));
    look("cudaStreamAddCallback");
    CHECK(cudaGraphLaunch(exec, asked.stream));
    look("a host node");
    REQUIRE(asked.runs == 3);

    // All is as it was before, and other threads were refused nothing.
    CHECK(cudaMemset(asked.device, 0, sizeof *asked.device));
    CHECK(cudaDeviceSynchronize());  // the other stream does not wait for the default one
    add<<<1, 1, 0, asked.other>>>(asked.device);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(asked.pinned, asked.device, sizeof *asked.device, cudaMemcpyDeviceToHost));
    REQUIRE(*asked.pinned == 1);

    const cudaHostNodeParams none{nullptr, nullptr};
    REQUIRE(cudaLaunchHostFunc(asked.stream, nullptr, nullptr) == cudaErrorInvalidValue);
    REQUIRE(cudaStreamAddCallback(asked.stream, nullptr, nullptr, 0) == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddHostNode(&node, graph, nullptr, 0, &none) == cudaErrorInvalidValue);
    return verdict(wrong);
}
