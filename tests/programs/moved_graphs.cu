// SPDX-License-Identifier: Apache-2.0
// moved_graphs: a child graph that its parent takes as it is, and not a copy of it. The program's handles of its nodes
// stay good: the executable graph of the parent is changed by them.
#include "driver.h"

#define FUNCTION(name) static const auto p_##name = entry<decltype(&name)>(#name)

__global__ void add(int* to, int what) { *to += what; }

static cudaStream_t stream;
static int *source, *target;  // two each, on the device

static CUDA_MEMCPY3D copy_of_one(int i) {
    CUDA_MEMCPY3D c = {};
    c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = reinterpret_cast<CUdeviceptr>(source + i);
    c.dstDevice = reinterpret_cast<CUdeviceptr>(target + i);
    c.WidthInBytes = sizeof(int);
    c.Height = c.Depth = 1;
    return c;
}

static void launch(cudaGraphExec_t exec, int first, int second) {
    int result[2];
    CHECK(cudaMemsetAsync(target, 0, sizeof result, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaMemcpyAsync(result, target, sizeof result, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("%d %d\n", result[0], result[1]);
    REQUIRE(result[0] == first && result[1] == second);
}

static CUgraphNode add_copy(cudaGraph_t graph, CUcontext context) {
    FUNCTION(cuGraphAddMemcpyNode);
    CUgraphNode node;
    const CUDA_MEMCPY3D c = copy_of_one(0);
    DRIVER(p_cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &c, context));
    return node;
}

static void move(cudaGraph_t child, cudaGraph_t parent, cudaGraphNode_t* node) {
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeGraph;
    p.graph.graph = child;
    p.graph.ownership = cudaGraphChildGraphOwnershipMove;
    CHECK(cudaGraphAddNode(node, parent, nullptr, nullptr, 0, &p));
}

int main() {
    FUNCTION(cuGraphExecMemcpyNodeSetParams);
    FUNCTION(cuCtxGetCurrent);
    const int values[] = {5, 7};
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&source, sizeof values));
    CHECK(cudaMalloc(&target, sizeof values));
    CHECK(cudaMemcpy(source, values, sizeof values, cudaMemcpyHostToDevice));
    CUcontext context;
    DRIVER(p_cuCtxGetCurrent(&context));

    for (int turn = 0; turn < 3; ++turn) {  // what is gone leaves nothing behind
        cudaGraph_t outer, child, inner;
        CHECK(cudaGraphCreate(&outer, 0));
        CHECK(cudaGraphCreate(&child, 0));
        CHECK(cudaGraphCreate(&inner, 0));
        const CUgraphNode copy = add_copy(inner, context);
        cudaGraphNode_t in_child, in_outer, behind;
        move(inner, child, &in_child);
        cudaKernelNodeParams k = {};
        int what = 100;
        void* arguments[] = {&target, &what};
        k.func = reinterpret_cast<void*>(add);
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = arguments;
        CHECK(cudaGraphAddKernelNode(&behind, child, &in_child, 1, &k));
        move(child, outer, &in_outer);
        size_t nodes = 0;
        CHECK(cudaGraphGetNodes(inner, nullptr, &nodes));
        REQUIRE(nodes == 1);

        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, outer, 0));
        launch(exec, 105, 0);
        const CUDA_MEMCPY3D c = copy_of_one(1);
        DRIVER(p_cuGraphExecMemcpyNodeSetParams(exec, copy, &c, context));
        launch(exec, 100, 7);
        what = 30;
        CHECK(cudaGraphExecKernelNodeSetParams(exec, behind, &k));
        launch(exec, 30, 7);
        REQUIRE(cudaGraphDestroy(child) != cudaSuccess);  // the parent's now
        cudaGetLastError();
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(outer));
    }
    CHECK(cudaFree(source));
    CHECK(cudaFree(target));
    CHECK(cudaStreamDestroy(stream));
    return verdict(0);
}
