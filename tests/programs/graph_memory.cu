// SPDX-License-Identifier: Apache-2.0
// graph_memory: a graph that leaves memory allocated is not launched again before that memory is freed. The launch
// itself says so, and nothing else fails. A graph that frees its memory, or whose launch frees it first, may be
// launched again.
#include "check.h"

__global__ void count(int* to) { ++*to; }

static void launches(cudaGraph_t graph, void* memory, cudaStream_t stream) {
    cudaGraphExec_t exec, freeing;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 20; ++round) {
        CHECK(cudaGraphLaunch(exec, stream));
        REQUIRE(cudaGraphLaunch(exec, stream) == cudaErrorInvalidValue);
        REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
        if (round % 2) CHECK(cudaFreeAsync(memory, stream));
        else CHECK(cudaFree(memory));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphInstantiate(&freeing, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    for (int round = 0; round < 3; ++round) CHECK(cudaGraphLaunch(freeing, stream));
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(freeing));
}

int main() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    cudaGraph_t made;
    cudaGraphNode_t node;
    cudaMemAllocNodeParams asked{};
    asked.poolProps.allocType = cudaMemAllocationTypePinned;
    asked.poolProps.location = {cudaMemLocationTypeDevice, 0};
    asked.bytesize = 4096;
    CHECK(cudaGraphCreate(&made, 0));
    CHECK(cudaGraphAddMemAllocNode(&node, made, nullptr, 0, &asked));
    launches(made, asked.dptr, stream);
    CHECK(cudaGraphDestroy(made));

    cudaGraph_t captured;
    void* memory;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&memory, 4096, stream));
    CHECK(cudaMemsetAsync(memory, 0, 4096, stream));
    count<<<1, 1, 0, stream>>>(static_cast<int*>(memory));
    CHECK(cudaStreamEndCapture(stream, &captured));
    launches(captured, memory, stream);
    CHECK(cudaGraphDestroy(captured));

    cudaGraphExec_t whole;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&memory, 4096, stream));
    count<<<1, 1, 0, stream>>>(static_cast<int*>(memory));
    CHECK(cudaFreeAsync(memory, stream));
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&whole, captured, 0));
    for (int round = 0; round < 20; ++round) CHECK(cudaGraphLaunch(whole, stream));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGraphExecDestroy(whole));
    CHECK(cudaGraphDestroy(captured));
    return verdict(0);
}
