// SPDX-License-Identifier: Apache-2.0
// Graphs of the software GPU: built node by node, captured from streams, instantiated, launched, changed.
#include <atomic>
#include <cstring>

#include "soft_fixture.h"

namespace {

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

// ---- graphs in each other, and events
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
TEST_F(SoftGraph, RunsNodesAfterWhatTheyDependOn) {
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode last = add_note(graph, {}, 3);
    const CUgraphNode first = add_note(graph, {}, 1), second = add_note(graph, {first}, 2);
    OK(cuGraphAddDependencies(graph, &second, &last, nullptr, 1));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    EXPECT_EQ((std::vector<int>{1, 2, 3}), order);
    launch(exec);
    EXPECT_EQ(6u, order.size());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST_F(SoftGraph, ACircleIsRefusedAtInstantiation) {
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode a = add_note(graph, {}, 1), b = add_note(graph, {a}, 2);
    OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
}

// Named twice, or of another graph: no node may remember one that was not made.
TEST_F(SoftGraph, ANodeThatIsRefusedLeavesNothingBehind) {
    CUgraph graph, another;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&another, 0));
    const CUgraphNode first = add_note(graph, {}, 1), stranger = add_note(another, {}, 2);
    const auto params = note(3);
    for (const CUgraphNode second : {first, stranger}) {
        const CUgraphNode after[] = {first, second};
        CUgraphNode node = nullptr;
        SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode(&node, graph, after, 2, &params));
    }
    std::size_t dependents = 0;
    OK(cuGraphNodeGetDependentNodes(first, nullptr, nullptr, &dependents));
    EXPECT_EQ(0u, dependents);
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    EXPECT_EQ(std::vector<int>{1}, order);
    OK(cuGraphDestroyNode(first));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(another));
}

TEST_F(SoftGraph, AnExecutableGraphIsACopy) {
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node;
    auto params = fill(at, 5);
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context));
    OK(cuGraphInstantiate(&exec, graph, 0));
    params = fill(at, 6);
    OK(cuGraphMemsetNodeSetParams(node, &params));
    OK(cuGraphMemsetNodeGetParams(node, &params));
    EXPECT_EQ(6u, params.value);
    launch(exec);
    EXPECT_EQ(5, word());
    OK(cuGraphExecMemsetNodeSetParams(exec, node, &params, context));
    launch(exec);
    EXPECT_EQ(6, word());
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
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

TEST_F(SoftGraph, ADisabledNodeDoesNothing) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    const auto params = fill(at, 5);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &params, context));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    launch(exec);
    EXPECT_EQ(0, word());
    OK(cuGraphNodeSetEnabled(exec, node, 1));
    launch(exec);
    EXPECT_EQ(5, word());
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST_F(SoftGraph, ItsStructureCanBeRead) {
    CUgraph graph, clone;
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode a = add_note(graph, {}, 1), b = add_note(graph, {a}, 2);
    CUgraphNode from[2], to[2], found;
    std::size_t count = 2;
    OK(cuGraphGetEdges(graph, from, to, nullptr, &count));
    EXPECT_EQ(1u, count);
    EXPECT_EQ(a, from[0]);
    EXPECT_EQ(b, to[0]);
    EXPECT_EQ(nullptr, from[1]);
    count = 2;
    OK(cuGraphGetRootNodes(graph, from, &count));
    EXPECT_EQ(1u, count);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, b, clone));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(found, &type));
    EXPECT_EQ(CU_GRAPH_NODE_TYPE_HOST, type);
    OK(cuGraphDestroyNode(a));
    EXPECT_EQ(1u, count_nodes(graph));
    EXPECT_EQ(2u, count_nodes(clone));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(clone));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(b, &type));
}

// ---- capture --------------------------------------------------------------------------------------------------------

TEST_F(SoftGraph, ACapturedStreamRunsNothingUntilTheGraphIsLaunched) {
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(at, 7, 1, stream));
    OK(cuMemcpyDtoDAsync(at + 4, at, 4, stream));
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(0, word(0));
    EXPECT_EQ(2u, count_nodes(graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    EXPECT_EQ(7, word(1));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

TEST_F(SoftGraph, AnotherStreamJoinsTheCaptureByAnEvent) {
    CUgraph graph;
    CUevent fork, join;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(at, 1, 1, stream));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemsetD32Async(at + 4, 2, 1, other));
    OK(cuMemsetD32Async(at + 8, 3, 1, stream));
    OK(cuEventRecord(join, other));
    SAYS(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(join));  // which also spoils the capture
    SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));

    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(at, 1, 1, stream));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemsetD32Async(at + 4, 2, 1, other));
    OK(cuMemsetD32Async(at + 8, 3, 1, stream));
    OK(cuEventRecord(join, other));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(cuMemsetD32Async(at + 12, 4, 1, stream));
    OK(cuStreamEndCapture(stream, &graph));
    std::size_t edges = 0;
    OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    EXPECT_EQ(4u, count_nodes(graph));
    EXPECT_EQ(4u, edges);
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
}

TEST_F(SoftGraph, AStreamThatWasNotJoinedSpoilsTheCapture) {
    CUgraph graph;
    CUevent fork;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(other, fork, 0));
    OK(cuMemsetD32Async(at, 1, 1, other));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(other, &graph));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    OK(cuStreamSynchronize(other));  // free again
    OK(cuEventDestroy(fork));
}

TEST_F(SoftGraph, WaitingForACapturingStreamSpoilsTheCapture) {
    CUgraph graph;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(at, 1, 1, stream));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

TEST_F(SoftGraph, TheLegacyStreamIsNotToBeCapturedNorMixedWithOne) {
    CUgraph graph;
    CUstream blocking;
    SAYS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureStatus status;
    SAYS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(nullptr, &status));
    OK(cuStreamIsCapturing(blocking, &status));
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);  // to ask does no harm
    SAYS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32(at, 1, 1));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &graph));
    OK(cuStreamDestroy(blocking));
}

TEST_F(SoftGraph, CaptureInfoNamesTheGraphAndItsFrontier) {
    CUgraph graph, seen = nullptr;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(at, 1, 1, stream));
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    const CUgraphNode* frontier = nullptr;
    std::size_t count = 0;
    OK(cuStreamGetCaptureInfo(stream, &status, &id, &seen, &frontier, nullptr, &count));
    ASSERT_EQ(1u, count);
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(frontier[0], &type));
    EXPECT_EQ(CU_GRAPH_NODE_TYPE_MEMSET, type);
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(seen, graph);
    OK(cuGraphDestroy(graph));
}

TEST_F(SoftGraph, AnEventOfAGraphIsReachedWithItsLaunch) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventSynchronize(event));
    OK(cuEventQuery(event));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy(event));
}

TEST_F(SoftGraph, AUserObjectGoesWithItsLastHolder) {
    static std::atomic<int> gone;
    gone = 0;
    CUgraph graph;
    CUgraphExec exec;
    CUuserObject object;
    OK(cuGraphCreate(&graph, 0));
    OK(cuUserObjectCreate(
        &object, nullptr, [](void*) { ++gone; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    EXPECT_EQ(0, gone);
    OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(1, gone);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST_F(SoftGraph, MemoryAllocatedAndFreedInACaptureIsTheGraphs) {
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr inside = 0;
    const std::size_t before = free_memory();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&inside, 256, stream));
    OK(cuMemsetD32Async(inside, 5, 64, stream));
    OK(cuMemcpyDtoDAsync(at, inside, 4, stream));
    OK(cuMemFreeAsync(inside, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    launch(exec);
    EXPECT_EQ(5, word());
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(before, free_memory());
}

TEST_F(SoftGraph, WhatAGraphLeftAllocatedIsFreedLikeAnyMemory) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    const std::size_t before = free_memory();
    CUDA_MEM_ALLOC_NODE_PARAMS asked{};
    asked.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    asked.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    asked.bytesize = 1024;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &asked));
    OK(cuGraphInstantiate(&exec, graph, 0));
    launch(exec);
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));  // not freed yet
    OK(cuMemFreeAsync(asked.dptr, stream));
    OK(cuStreamSynchronize(stream));
    launch(exec);
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
    OK(cuMemsetD8(asked.dptr, 1, 1024));  // in use, so still there
    OK(cuMemFree(asked.dptr));
    EXPECT_EQ(before, free_memory());
}

}  // namespace
