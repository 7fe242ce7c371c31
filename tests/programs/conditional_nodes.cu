// SPDX-License-Identifier: Apache-2.0
// conditional_nodes: parts of a graph that run if, while or as a value says: one that the launch begins with, and one
// that kernels set. Kernels set it by a function of CUDA's device runtime, which natively is linked from the toolkit;
// without one the loop is not shown.
#include <unistd.h>

#include <string>

#include "driver.h"

__global__ void add(int* to, int what) { *to += what; }

// add(to, 1), and set the condition to `*to < most`.
static const char counts_text[] = R"(
.version 6.4
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count_up(.param .u64 handle, .param .u64 to, .param .u32 most) {
    .reg .pred %more;
    .reg .b32 %n, %most, %value;
    .reg .b64 %to, %handle;
    ld.param.u64 %handle, [handle];
    ld.param.u64 %to, [to];
    ld.param.u32 %most, [most];
    cvta.to.global.u64 %to, %to;
    ld.global.u32 %n, [%to];
    add.u32 %n, %n, 1;
    st.global.u32 [%to], %n;
    setp.lt.u32 %more, %n, %most;
    selp.u32 %value, 1, 0, %more;
    {
        .param .b64 its_handle;
        .param .b32 its_value;
        st.param.b64 [its_handle], %handle;
        st.param.b32 [its_value], %value;
        call.uni cudaGraphSetConditional, (its_handle, its_value);
    }
    ret;
}
)";

#define FUNCTION(name) static const auto p_##name = entry<decltype(&name)>(#name)

// Null: there is no device runtime here.
static CUfunction count_up() {
    FUNCTION(cuModuleLoadData);
    FUNCTION(cuModuleGetFunction);
    FUNCTION(cuLinkCreate);
    FUNCTION(cuLinkAddData);
    FUNCTION(cuLinkAddFile);
    FUNCTION(cuLinkComplete);
    CUmodule module;
    CUfunction function;
    if (p_cuModuleLoadData(&module, counts_text) != CUDA_SUCCESS) {  // what it calls must be linked
        const char* home = getenv("CUDA_HOME");
        const std::string runtime = std::string(home ? home : "/usr/local/cuda") + "/lib64/libcudadevrt.a";
        if (access(runtime.c_str(), R_OK) != 0) return printf("no %s: no loop is shown\n", runtime.c_str()), nullptr;
        CUlinkState link;
        void* image;
        size_t bytes;
        DRIVER(p_cuLinkCreate(0, nullptr, nullptr, &link));
        DRIVER(p_cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(counts_text), sizeof counts_text, "counts", 0,
                               nullptr, nullptr));
        DRIVER(p_cuLinkAddFile(link, CU_JIT_INPUT_LIBRARY, runtime.c_str(), 0, nullptr, nullptr));
        DRIVER(p_cuLinkComplete(link, &image, &bytes));
        DRIVER(p_cuModuleLoadData(&module, image));
    }
    DRIVER(p_cuModuleGetFunction(&function, module, "count_up"));
    return function;
}

static int* value;  // on the device
static cudaStream_t stream;

static cudaGraphNode_t add_kernel(cudaGraph_t graph, int what, const cudaGraphNode_t* after = nullptr) {
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    void* arguments[] = {&value, &what};
    p.func = (void*)add;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &p));
    return node;
}

struct Branches {
    cudaGraphConditionalHandle handle;
    cudaGraphNode_t node;
    cudaGraph_t* graphs;
};
static Branches branches(cudaGraph_t graph, cudaGraphConditionalNodeType type, unsigned size, unsigned begins_with,
                         const cudaGraphNode_t* after = nullptr) {
    Branches b;
    CHECK(cudaGraphConditionalHandleCreate(&b.handle, graph, begins_with, cudaGraphCondAssignDefault));
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = b.handle;
    p.conditional.type = type;
    p.conditional.size = size;
    CHECK(cudaGraphAddNode(&b.node, graph, after, nullptr, after ? 1 : 0, &p));
    b.graphs = p.conditional.phGraph_out;
    REQUIRE(b.graphs);
    cudaGraphNodeType found;
    CHECK(cudaGraphNodeGetType(b.node, &found));
    REQUIRE(found == cudaGraphNodeTypeConditional);
    return b;
}

// What launches of the graph make of 0, one after the other.
static int launched(cudaGraph_t graph, int times = 1) {
    cudaGraphExec_t exec;
    int result;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaMemsetAsync(value, 0, sizeof *value, stream));
    for (int i = 0; i < times; ++i) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaMemcpyAsync(&result, value, sizeof result, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return result;
}

static cudaGraph_t fresh() {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    return graph;
}

static int if_else(unsigned begins_with, unsigned size) {
    const cudaGraph_t graph = fresh();
    const Branches b = branches(graph, cudaGraphCondTypeIf, size, begins_with);
    add_kernel(b.graphs[0], 10);
    if (size == 2) add_kernel(b.graphs[1], 100);
    add_kernel(graph, 1, &b.node);
    return launched(graph);
}

static int choice(unsigned begins_with) {
    const cudaGraph_t graph = fresh();
    const Branches b = branches(graph, cudaGraphCondTypeSwitch, 3, begins_with);
    for (int i = 0; i < 3; ++i) add_kernel(b.graphs[i], 10 * (i + 1));
    return launched(graph);
}

// A branch that a stream's capture fills, and that has a condition of its own.
static int captured(unsigned outer, unsigned inner, bool asks = true) {
    const cudaGraph_t graph = fresh();
    const Branches b = branches(graph, cudaGraphCondTypeIf, 1, outer);
    CHECK(cudaStreamBeginCaptureToGraph(stream, b.graphs[0], nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal));
    add<<<1, 1, 0, stream>>>(value, 3);
    add<<<1, 1, 0, stream>>>(value, 4);
    cudaGraph_t filled = b.graphs[0];  // of a graph that it has, a program need not be told
    CHECK(cudaStreamEndCapture(stream, asks ? &filled : nullptr));
    REQUIRE(filled == b.graphs[0]);
    size_t count = 0;
    CHECK(cudaGraphGetNodes(b.graphs[0], nullptr, &count));
    REQUIRE(count == 2);
    const Branches c = branches(b.graphs[0], cudaGraphCondTypeIf, 1, inner);
    add_kernel(c.graphs[0], 50);
    return launched(graph);
}

static int loop(CUfunction function, unsigned most, unsigned begins_with, int times) {
    FUNCTION(cuGraphAddKernelNode);
    const cudaGraph_t graph = fresh();
    Branches b = branches(graph, cudaGraphCondTypeWhile, 1, begins_with);
    CUDA_KERNEL_NODE_PARAMS p = {};
    void* arguments[] = {&b.handle, &value, &most};
    p.func = function;
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    p.kernelParams = arguments;
    CUgraphNode node;
    DRIVER(p_cuGraphAddKernelNode(&node, b.graphs[0], nullptr, 0, &p));
    return launched(graph, times);
}

// Conditions of graphs that live side by side, and of graphs one after the other.
static void several() {
    cudaGraph_t graphs[3];
    for (auto& graph : graphs) {
        graph = fresh();
        const Branches b = branches(graph, cudaGraphCondTypeIf, 1, &graph == &graphs[1] ? 0 : 1);
        add_kernel(b.graphs[0], 1 + static_cast<int>(&graph - graphs));
    }
    REQUIRE(launched(graphs[0]) == 1);
    REQUIRE(launched(graphs[2]) == 3);
    REQUIRE(launched(graphs[1]) == 0);
}

// A condition is one for a graph and all graphs in it: each may have its node.
static int condition_of(bool outer_has_node) {
    const cudaGraph_t graph = fresh();
    const Branches b = branches(graph, cudaGraphCondTypeIf, 1, 1);
    cudaGraphNodeParams p = {};
    cudaGraphNode_t node;
    CHECK(cudaGraphConditionalHandleCreate(&p.conditional.handle, outer_has_node ? b.graphs[0] : graph, 1,
                                           cudaGraphCondAssignDefault));
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.type = cudaGraphCondTypeIf;
    p.conditional.size = 1;
    CHECK(cudaGraphAddNode(&node, outer_has_node ? graph : b.graphs[0], nullptr, nullptr, 0, &p));
    add_kernel(p.conditional.phGraph_out[0], 5);
    return launched(graph);
}

// A handle is its outermost graph's, and for one node.
static void mistakes() {
    const cudaGraph_t graph = fresh(), other = fresh();
    const Branches b = branches(graph, cudaGraphCondTypeIf, 1, 1);
    cudaGraphNodeParams p = {};
    cudaGraphNode_t node;
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = b.handle;
    p.conditional.type = cudaGraphCondTypeIf;
    p.conditional.size = 1;
    REQUIRE(cudaGraphAddNode(&node, other, nullptr, nullptr, 0, &p) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    REQUIRE(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &p) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGraphConditionalHandleCreate(&p.conditional.handle, other, 0, 0));
    p.conditional.type = cudaGraphCondTypeWhile;
    p.conditional.size = 2;
    REQUIRE(cudaGraphAddNode(&node, other, nullptr, nullptr, 0, &p) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphDestroy(other));
}

int main() {
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&value, sizeof *value));
    REQUIRE(if_else(1, 1) == 11);
    REQUIRE(if_else(0, 1) == 1);
    REQUIRE(if_else(7, 2) == 11);
    REQUIRE(if_else(0, 2) == 101);
    for (unsigned i = 0; i < 3; ++i) REQUIRE(choice(i) == static_cast<int>(10 * (i + 1)));
    REQUIRE(choice(3) == 0);
    REQUIRE(captured(1, 1) == 57);
    REQUIRE(captured(1, 0) == 7);
    REQUIRE(captured(0, 1) == 0);
    REQUIRE(captured(1, 1, false) == 57);
    several();
    REQUIRE(condition_of(false) == 5);
    REQUIRE(condition_of(true) == 5);
    mistakes();
    if (const CUfunction function = count_up()) {
        REQUIRE(loop(function, 10, 1, 1) == 10);
        REQUIRE(loop(function, 10, 1, 3) == 12);  // each launch begins again: the second and third go round once
        REQUIRE(loop(function, 10, 0, 1) == 0);
    }
    CHECK(cudaFree(value));
    CHECK(cudaStreamDestroy(stream));
    return verdict(0);
}
