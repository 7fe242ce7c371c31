// SPDX-License-Identifier: Apache-2.0
// Graphs of the software GPU inside each other, and executable ones that take over another one's operations.
#include "tests/unit/support/soft_graph.h"

namespace {

TEST_F(SoftGraph, DoesNotComeToLieInItself) {
    CUgraph inner, outer, body;
    CUgraphNode node;
    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddEmptyNode(&node, inner, nullptr, 0));
    const auto move = [&](CUgraph into, CUgraph child) {
        CUgraphNodeParams params{};
        params.type = CU_GRAPH_NODE_TYPE_GRAPH;
        params.graph.graph = child;
        params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
        return cuGraphAddNode(&node, into, nullptr, nullptr, 0, &params);
    };
    OK(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
    OK(cuGraphChildGraphNodeGetGraph(node, &body));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, move(body, outer));
    OK(move(outer, inner));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, move(inner, outer));
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, outer, 0));
    launch(exec);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(outer));
}
TEST_F(SoftGraph, GrowsOnlySoLargeAndSoDeepByClonesOfItself) {
    CUgraph graph = nullptr, outer = nullptr;
    CUgraphNode node = nullptr;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
    CUresult result = CUDA_SUCCESS;
    for (int level = 0; level < 200 && result == CUDA_SUCCESS; ++level) {  // deeper
        OK(cuGraphCreate(&outer, 0));
        result = cuGraphAddChildGraphNode(&node, outer, nullptr, 0, graph);
        if (result != CUDA_SUCCESS) break;
        OK(cuGraphDestroy(graph));
        graph = outer;
    }
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
    OK(cuGraphDestroy(outer));
    OK(cuGraphDestroy(graph));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
    result = CUDA_SUCCESS;
    for (int level = 0; level < 30 && result == CUDA_SUCCESS; ++level) {  // three times as large each time
        OK(cuGraphCreate(&outer, 0));
        for (int i = 0; i < 3 && result == CUDA_SUCCESS; ++i)
            result = cuGraphAddChildGraphNode(&node, outer, nullptr, 0, graph);
        OK(cuGraphDestroy(graph));
        graph = outer;
    }
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
    OK(cuGraphDestroy(graph));
}
TEST_F(SoftGraph, WaitsForWhatHadBeenRecordedWhenItWasLaunched) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node, behind;
    CUevent event;
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
    OK(cuGraphAddEventRecordNode(&behind, graph, &node, 1, event));
    OK(cuGraphAddEventWaitNode(&node, graph, &behind, 1, event));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWriteValue32(other, at, 1, 0));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(event));
}
TEST_F(SoftGraph, AnUpdateTakesOverAGraphOfTheSameShape) {
    const auto filled = [&](unsigned value, int notes) {
        CUgraph graph = nullptr;
        CUgraphNode node;
        const auto params = fill(at, value);
        EXPECT_EQ(CUDA_SUCCESS, cuGraphCreate(&graph, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context));
        for (int i = 0; i < notes; ++i) add_note(graph, {node}, i);
        return graph;
    };
    const CUgraph first = filled(1, 1), same = filled(2, 1), different = filled(3, 2);
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphInstantiate(&exec, first, 0));
    OK(cuGraphExecUpdate(exec, same, &info));
    SAYS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, different, &info));
    EXPECT_EQ(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
    launch(exec);
    EXPECT_EQ(2, word());
    for (const CUgraph graph : {first, same, different}) OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
}

TEST_F(SoftGraph, AChildGraphRunsInItsPlace) {
    CUgraph graph, child;
    CUgraphExec exec;
    CUgraphNode node;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    add_note(child, {}, 2);
    const CUgraphNode before = add_note(graph, {}, 1);
    OK(cuGraphAddChildGraphNode(&node, graph, &before, 1, child));
    add_note(child, {}, 99);  // too late: the node has a copy
    add_note(graph, {node}, 3);
    CUgraph inside = nullptr;
    OK(cuGraphChildGraphNodeGetGraph(node, &inside));
    EXPECT_EQ(1u, count_nodes(inside));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(inside));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    EXPECT_EQ((std::vector<int>{1, 2, 3}), order);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(graph));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(inside, nullptr, nullptr));
}

TEST_F(SoftGraph, AnUpdateReachesGraphsWithinItAndTheirNodesStayWhichTheyAre) {
    const auto nested = [&](unsigned value, CUgraphNode* its, CUgraphNode* its_child = nullptr) {
        CUgraph graph = nullptr, child = nullptr, inside = nullptr;
        CUgraphNode node = nullptr;
        const auto params = fill(at, value);
        std::size_t one = 1;
        EXPECT_EQ(CUDA_SUCCESS, cuGraphCreate(&graph, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphCreate(&child, 0));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphAddMemsetNode(&node, child, nullptr, 0, &params, context));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphDestroy(child));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphChildGraphNodeGetGraph(node, &inside));
        EXPECT_EQ(CUDA_SUCCESS, cuGraphGetNodes(inside, its, &one));
        if (its_child) *its_child = node;
        return graph;
    };
    CUgraphNode filling = nullptr, child = nullptr, another = nullptr;
    const CUgraph first = nested(1, &filling, &child), same = nested(2, &another);
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphInstantiate(&exec, first, 0));
    OK(cuGraphExecUpdate(exec, same, &info));
    launch(exec);
    EXPECT_EQ(2, word());
    const auto params = fill(at, 3);
    OK(cuGraphExecMemsetNodeSetParams(exec, filling, &params, context));
    launch(exec);
    EXPECT_EQ(3, word());

    CUgraphNodeParams of_child{};  // the same of one node, by a graph
    of_child.type = CU_GRAPH_NODE_TYPE_GRAPH;
    OK(cuGraphChildGraphNodeGetGraph(child, &of_child.graph.graph));
    OK(cuGraphExecNodeSetParams(exec, child, &of_child));
    launch(exec);
    EXPECT_EQ(1, word());
    OK(cuGraphNodeSetEnabled(exec, filling, 0));
    OK(cuMemsetD8(at, 0, 4));
    launch(exec);
    EXPECT_EQ(0, word());
    of_child.graph.graph = first;
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, child, &of_child));
    for (const CUgraph graph : {first, same}) OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
}

}  // namespace
