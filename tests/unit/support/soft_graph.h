// SPDX-License-Identifier: Apache-2.0
// soft_graph.h: what the tests of the software GPU's graphs share: two streams, memory, and host nodes that note that
// they ran.
#pragma once
#include "tests/unit/support/soft_fixture.h"

struct SoftGraph : SoftGpu {
    void SetUp() override {
        SoftGpu::SetUp();
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        at = device_memory(1024);
        OK(cuMemsetD8(at, 0, 1024));
        OK(cuCtxSynchronize());
        order.clear();
    }
    void TearDown() override {
        OK(cuMemFree(at));
        OK(cuStreamDestroy(stream));
        OK(cuStreamDestroy(other));
        SoftGpu::TearDown();
    }
    static CUDA_MEMSET_NODE_PARAMS fill(CUdeviceptr where, unsigned value) { return {where, 0, value, 4, 1, 1}; }
    static CUDA_HOST_NODE_PARAMS note(int number) {
        return {[](void* data) { order.push_back(static_cast<int>(reinterpret_cast<std::intptr_t>(data))); },
                reinterpret_cast<void*>(static_cast<std::intptr_t>(number))};
    }
    CUgraphNode add_note(CUgraph graph, const std::vector<CUgraphNode>& after, int number) {
        CUgraphNode node = nullptr;
        const auto params = note(number);
        EXPECT_EQ(CUDA_SUCCESS, cuGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
        return node;
    }
    void launch(CUgraphExec exec) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
    }
    int word(int index = 0) { return read_back<int>(at + static_cast<CUdeviceptr>(4 * index), 1)[0]; }
    static std::size_t count_nodes(CUgraph graph) {
        std::size_t count = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuGraphGetNodes(graph, nullptr, &count));
        return count;
    }

    CUstream stream = nullptr, other = nullptr;
    CUdeviceptr at = 0;
    inline static std::vector<int> order;
};
