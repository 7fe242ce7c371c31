// SPDX-License-Identifier: Apache-2.0
// graph_capture: a captured graph reads and writes its memory at every launch, wherever that lies: pinned memory, the heap,
// the stack. Functions of the program run in the graph's order; a wait in a capture is the error that CUDA says it is.
#include <chrono>
#include <thread>

#include "check.h"

#include <vector>

constexpr int n = 3000;

__global__ void add(const int* a, int* b, int what) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + what;
}

__global__ void late(volatile int* word) {
    for (long long start = clock64(); clock64() - start < 100000000;) {}
    *word = 1;
}

// A stream that has joined a capture may be destroyed before the capture ends; what it was given before goes on, and is
// waited for.
static void helper_gone_in_a_capture(cudaStream_t stream, int* a, int* b, int* result) {
    cudaStream_t helper;
    cudaEvent_t fork, join;
    int* word;
    CHECK(cudaMallocHost(&word, sizeof *word));
    *word = 0;
    CHECK(cudaStreamCreateWithFlags(&helper, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    late<<<1, 1, 0, helper>>>(word);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(a, 0, n * sizeof(int), stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(helper, fork, 0));
    add<<<(n + 255) / 256, 256, 0, helper>>>(a, b, 5);
    CHECK(cudaEventRecord(join, helper));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(cudaStreamDestroy(helper));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // whoever looks after what is under way, looks now
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*static_cast<volatile int*>(word) == 1);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(result, b, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) REQUIRE(result[i] == 5);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFreeHost(word));
}

struct Log {
    int calls = 0;
    const int* result;
    long long sum = 0;
};
void CUDART_CB look(void* data) {
    Log* log = static_cast<Log*>(data);
    ++log->calls;
    log->sum = 0;
    for (int i = 0; i < n; ++i) log->sum += log->result[i];
}

int main() {
    int on_stack[n], result[n];
    int *a, *b;
    CHECK(cudaMalloc(&a, sizeof on_stack));
    CHECK(cudaMalloc(&b, sizeof on_stack));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Log log{0, result};

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(a, on_stack, sizeof on_stack, cudaMemcpyHostToDevice, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, 7);
    CHECK(cudaMemcpyAsync(result, b, sizeof result, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, look, &log));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    REQUIRE(nodes >= 4);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < n; ++i) on_stack[i] = i * (round + 1);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        long long expected = 0;
        for (int i = 0; i < n; ++i) {
            REQUIRE(result[i] == i * (round + 1) + 7);
            expected += result[i];
        }
        REQUIRE(log.calls == round + 1);
        REQUIRE(log.sum == expected);
    }

    // The same by hand: one copy node is one node, though the stack is out of the GPU's reach.
    cudaGraph_t by_hand;
    cudaGraphNode_t in, out;
    CHECK(cudaGraphCreate(&by_hand, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&in, by_hand, nullptr, 0, a, on_stack, sizeof on_stack, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddMemcpyNode1D(&out, by_hand, &in, 1, result, a, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphGetNodes(by_hand, nullptr, &nodes));
    REQUIRE(nodes == 2);
    cudaGraphExec_t exec_by_hand;
    CHECK(cudaGraphInstantiate(&exec_by_hand, by_hand, 0));
    for (int i = 0; i < n; ++i) on_stack[i] = -i;
    CHECK(cudaGraphLaunch(exec_by_hand, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; ++i) REQUIRE(result[i] == -i);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    REQUIRE(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t spoilt = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &spoilt) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK(cudaStreamSynchronize(stream));
    helper_gone_in_a_capture(stream, a, b, result);
    std::printf("three launches of a captured graph, %d calls back\nPASSED\n", log.calls);
    return 0;
}
