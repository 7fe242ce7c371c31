// SPDX-License-Identifier: Apache-2.0
// older_driver: programs of CUDA 12 and older ask for the driver's functions as they were then, by name and version
// (cuGetProcAddress), and get functions with the parameters of those days.
#include <cudaTypedefs.h>

#include <cstring>

#include "driver.h"

using Instantiate = CUresult (*)(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);  // until CUDA 11.3

__global__ void add(int* p, int n) { *p += n; }

int main() {
    CHECK(cudaFree(nullptr));
    CUdevice device = -1;
    DRIVER(entry<PFN_cuCtxGetDevice_v2000>("cuCtxGetDevice", 2000)(&device));
    REQUIRE(device == 0);
    DRIVER(entry<PFN_cuCtxSynchronize_v2000>("cuCtxSynchronize", 12000)());

    // Managed memory: a device's number, and later a place.
    int* managed;
    CHECK(cudaMallocManaged(&managed, 1 << 20));
    const auto p = reinterpret_cast<CUdeviceptr>(managed);
    int can = 0;
    CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrConcurrentManagedAccess, 0));
    const auto prefetch = entry<PFN_cuMemPrefetchAsync_v8000>("cuMemPrefetchAsync", 8000);
    if (can) DRIVER(prefetch(p, 1 << 20, CU_DEVICE_CPU, nullptr));
    DRIVER(entry<PFN_cuMemAdvise_v8000>("cuMemAdvise", 12010)(p, 1 << 20, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    entry<PFN_cuMemAdvise_v12020>("cuMemAdvise", 12020);

    // A capture, seen through three generations of one question.
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemset(managed, 0, 4));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    add<<<1, 1, 0, stream>>>(managed, 3);
    CUstreamCaptureStatus status;
    cuuint64_t id = 0, same = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    size_t count = 0;
    DRIVER(entry<PFN_cuStreamGetCaptureInfo_v10010>("cuStreamGetCaptureInfo", 11020)(stream, &status, &id));
    REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0);
    DRIVER(entry<PFN_cuStreamGetCaptureInfo_v11030>("cuStreamGetCaptureInfo", 12000)(stream, &status, &same, &graph,
                                                                                     &nodes, &count));
    REQUIRE(same == id && graph && count == 1 && nodes[0]);
    CUgraphNode node = nodes[0];
    DRIVER(entry<PFN_cuStreamUpdateCaptureDependencies_v11030>("cuStreamUpdateCaptureDependencies", 12000)(
        stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    add<<<1, 1, 0, stream>>>(managed, 4);
    cudaGraph_t captured;
    CHECK(cudaStreamEndCapture(stream, &captured));

    // Graphs: edges without data, kernels without contexts, a log.
    count = 0;
    DRIVER(entry<PFN_cuGraphGetEdges_v10000>("cuGraphGetEdges", 12000)(captured, nullptr, nullptr, &count));
    REQUIRE(count == 1);
    CUgraphNode from[1], to[1];
    DRIVER(entry<PFN_cuGraphGetEdges_v10000>("cuGraphGetEdges", 12000)(captured, from, to, &count));
    CUDA_KERNEL_NODE_PARAMS_v1 parameters;
    char behind[64];
    memset(behind, 0x5a, sizeof behind);
    DRIVER(entry<PFN_cuGraphKernelNodeGetParams_v10000>("cuGraphKernelNodeGetParams", 11080)(to[0], &parameters));
    REQUIRE(parameters.func && parameters.gridDimX == 1);
    CUgraphNode third;
    DRIVER(entry<PFN_cuGraphAddKernelNode_v10000>("cuGraphAddKernelNode", 11080)(&third, captured, to, 1, &parameters));
    DRIVER(entry<PFN_cuGraphRemoveDependencies_v10000>("cuGraphRemoveDependencies", 12000)(captured, to, &third, 1));
    DRIVER(entry<PFN_cuGraphAddDependencies_v10000>("cuGraphAddDependencies", 12000)(captured, to, &third, 1));
    CUgraphExec exec;
    char log[100] = "not touched";
    CUgraphNode failed;
    DRIVER(entry<Instantiate>("cuGraphInstantiate", 11030)(&exec, captured, &failed, log, sizeof log));
    CUgraphExecUpdateResult result;
    DRIVER(entry<PFN_cuGraphExecUpdate_v10020>("cuGraphExecUpdate", 11080)(exec, captured, &failed, &result));
    REQUIRE(result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    REQUIRE(*managed == 3 + 4 + 4);
    for (char c : behind) REQUIRE(c == 0x5a);

    void* none = &none;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuStreamBeginCapture", &none, 9000, cudaEnableDefault, &found));
    REQUIRE(!none && found == cudaDriverEntryPointVersionNotSufficent);
    std::printf("functions of ten versions of CUDA\nPASSED\n");
    return 0;
}
