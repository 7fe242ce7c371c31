/* SPDX-License-Identifier: Apache-2.0
 * graph_nodes.c: a graph is made node by node
 */
#include "check.h"

int main(void) {
    int number = 0, value = 30;
    unsigned n = 1;
    CUmodule module;
    CUdeviceptr p;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode fill, kernel;
    CUcontext context;
    CUDA_MEMSET_NODE_PARAMS fills = {0};
    CUDA_KERNEL_NODE_PARAMS launch = {0};
    void* arguments[] = {&p, &n, &value};
    begin();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemAlloc(&p, 4));
    CHECK(cuGraphCreate(&graph, 0));
    fills.dst = p;
    fills.value = 12;
    fills.elementSize = 4;
    fills.width = 1;
    fills.height = 1;
    CHECK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &fills, context));
    launch.func = function(&module, "add");
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
    launch.kernelParams = arguments;
    CHECK(cuGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 42);
    value = 1;
    CHECK(cuGraphExecKernelNodeSetParams(exec, kernel, &launch));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuMemcpyDtoH(&number, p, 4));
    EXPECT(number == 13);
    return passed();
}
