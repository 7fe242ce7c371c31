/* SPDX-License-Identifier: Apache-2.0
 * graph_nodes.c: a graph that is made node by node, and updated
 */
#include "runtime.h"

int main(void) {
    int numbers[64], *p, i, value = 7;
    unsigned n = 64;
    void* arguments[] = {&p, &n, &value};
    cudaLibrary_t library;
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;
    cudaGraphNode_t zero, launch, copy;
    struct cudaMemsetParams fill;
    struct cudaKernelNodeParams kernel;
    enum cudaGraphNodeType type;
    memset(&fill, 0, sizeof fill);
    memset(&kernel, 0, sizeof kernel);
    CHECK(cudaMalloc((void**)&p, sizeof numbers));
    CHECK(cudaGraphCreate(&graph, 0));
    fill.dst = p;
    fill.elementSize = 4;
    fill.width = 64;
    fill.height = 1;
    fill.value = 1000;
    CHECK(cudaGraphAddMemsetNode(&zero, graph, NULL, 0, &fill));
    kernel.func = (void*)kernel_of(&library, "add");
    kernel.gridDim = extent(1, 1, 1);
    kernel.blockDim = extent(64, 1, 1);
    kernel.kernelParams = arguments;
    CHECK(cudaGraphAddKernelNode(&launch, graph, &zero, 1, &kernel));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &launch, 1, numbers, p, sizeof numbers, cudaMemcpyDeviceToHost));
    CHECK(cudaGraphNodeGetType(launch, &type));
    EXPECT(type == cudaGraphNodeTypeKernel);
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    for (i = 0; i < 64; ++i) EXPECT(numbers[i] == 1007);
    value = 8;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, launch, &kernel));
    CHECK(cudaGraphLaunch(exec, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    for (i = 0; i < 64; ++i) EXPECT(numbers[i] == 1008);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));
    return passed();
}
