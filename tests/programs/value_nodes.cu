// SPDX-License-Identifier: Apache-2.0
// value_nodes: graph nodes that wait for words of memory and write words: added in both ways, read back, set again in
// the graph and in what was made of it, and held by the CPU in the middle of a launch.
#include <chrono>
#include <thread>

#include "driver.h"

#define FUNCTION(name) static const auto p_##name = entry<decltype(&name)>(#name, 12020)

static CUstreamBatchMemOpParams write32(CUdeviceptr to, unsigned value) {
    CUstreamBatchMemOpParams o = {};
    o.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    o.writeValue.address = to;
    o.writeValue.value = value;
    return o;
}
static CUstreamBatchMemOpParams write64(CUdeviceptr to, unsigned long long value) {
    CUstreamBatchMemOpParams o = write32(to, 0);
    o.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    o.writeValue.value64 = value;
    return o;
}
static CUstreamBatchMemOpParams wait32(CUdeviceptr to, unsigned value) {
    CUstreamBatchMemOpParams o = {};
    o.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    o.waitValue.address = to;
    o.waitValue.value = value;
    o.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return o;
}

static unsigned* far;  // four words of the device
static cudaStream_t stream;

static void require(unsigned a, unsigned b, unsigned c, unsigned d) {
    unsigned got[4];
    CHECK(cudaMemcpyAsync(got, far, sizeof got, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(got[0] == a && got[1] == b && got[2] == c && got[3] == d);
    CHECK(cudaMemsetAsync(far, 0, sizeof got, stream));
}

int main() {
    FUNCTION(cuCtxGetCurrent);
    FUNCTION(cuGraphNodeGetType);
    FUNCTION(cuGraphAddBatchMemOpNode);
    FUNCTION(cuGraphBatchMemOpNodeGetParams);
    FUNCTION(cuGraphBatchMemOpNodeSetParams);
    FUNCTION(cuGraphExecBatchMemOpNodeSetParams);
    static const auto p_cuGraphAddNode = entry<decltype(&cuGraphAddNode)>("cuGraphAddNode", 13000);
    FUNCTION(cuGraphNodeSetParams);
    FUNCTION(cuGraphExecNodeSetParams);
    unsigned *words, *words_there;
    CHECK(cudaHostAlloc(&words, 4096, cudaHostAllocMapped));
    words[0] = 0;
    CHECK(cudaHostGetDevicePointer(&words_there, words, 0));
    CHECK(cudaMalloc(&far, 16));
    CHECK(cudaMemset(far, 0, 16));
    CHECK(cudaStreamCreate(&stream));
    const auto gate = reinterpret_cast<CUdeviceptr>(words_there), device = reinterpret_cast<CUdeviceptr>(far);
    CUcontext context;
    DRIVER(p_cuCtxGetCurrent(&context));

    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    CUstreamBatchMemOpParams first[3] = {wait32(gate, 1), write32(device, 11), write32(device + 4, 12)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {context, 3, first, 0};
    CUgraphNode waits, writes;
    DRIVER(p_cuGraphAddBatchMemOpNode(&waits, graph, nullptr, 0, &p));
    CUstreamBatchMemOpParams second[1] = {write64(device + 8, 0x500000004)};
    CUgraphNodeParams any = {};
    any.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    any.memOp.ctx = context;
    any.memOp.count = 1;
    any.memOp.paramArray = second;
    DRIVER(p_cuGraphAddNode(&writes, graph, &waits, nullptr, 1, &any));
    CUgraphNodeType type;  // which the runtime has no word for
    DRIVER(p_cuGraphNodeGetType(writes, &type));
    REQUIRE(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

    CUDA_BATCH_MEM_OP_NODE_PARAMS got = {};
    DRIVER(p_cuGraphBatchMemOpNodeGetParams(waits, &got));
    REQUIRE(got.count == 3 && got.paramArray[0].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32);
    REQUIRE(got.paramArray[2].writeValue.address == device + 4 && got.paramArray[2].writeValue.value == 12);

    // A launch goes no further than the CPU lets it.
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    REQUIRE(cudaStreamQuery(stream) == cudaErrorNotReady);
    *static_cast<volatile unsigned*>(words) = 1;
    require(11, 12, 4, 5);

    // The gate stands open. In what was made of the graph, then in the graph.
    first[1] = write32(device, 21);
    DRIVER(p_cuGraphExecBatchMemOpNodeSetParams(exec, waits, &p));
    second[0] = write64(device + 8, 0x700000006);
    DRIVER(p_cuGraphExecNodeSetParams(exec, writes, &any));
    CHECK(cudaGraphLaunch(exec, stream));
    require(21, 12, 6, 7);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    require(11, 12, 4, 5);
    CHECK(cudaGraphExecDestroy(exec));
    first[2] = write32(device + 4, 32);
    p.count = 3;
    DRIVER(p_cuGraphBatchMemOpNodeSetParams(waits, &p));
    DRIVER(p_cuGraphNodeSetParams(writes, &any));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    require(21, 32, 6, 7);

    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFree(far));
    CHECK(cudaFreeHost(words));
    return verdict(0);
}
