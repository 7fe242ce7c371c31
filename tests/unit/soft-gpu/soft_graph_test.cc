// SPDX-License-Identifier: Apache-2.0
// Graphs of the software GPU: built node by node, captured from streams, instantiated, launched, changed.
#include <atomic>
#include <cstring>

#include "tests/unit/support/soft_graph.h"

namespace {

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

// Named twice, or of another graph: no node may keep a node that was not made.
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

// A later node often gets the address, and so the handle, of one that is gone.
TEST_F(SoftGraph, AnExecutableGraphDoesNotTakeALaterNodeForOneOfItsOriginals) {
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    const CUgraphNode first = add_note(graph, {}, 1);
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    CUDA_HOST_NODE_PARAMS params{};
    OK(cuGraphHostNodeGetParams(first, &params));
    OK(cuGraphExecHostNodeSetParams(exec, first, &params));
    OK(cuGraphDestroyNode(first));
    for (int i = 0; i < 100; ++i)
        SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphExecHostNodeSetParams(exec, add_note(graph, {}, 2), &params));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
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
    SAYS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    OK(cuStreamSynchronize(other));  // no longer capturing
    OK(cuEventDestroy(fork));
}

TEST_F(SoftGraph, WhatNoGraphCanHaveSpoilsTheCapture) {
    CUgraph graph, empty;
    CUgraphExec exec;
    CUevent fork, timed;
    float milliseconds;
    OK(cuGraphCreate(&empty, 0));
    OK(cuGraphInstantiate(&exec, empty, 0));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, 0));
    const auto spoils = [&](CUresult code, auto act) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        SAYS(code, act());
        SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    };
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuGraphLaunch(exec, stream); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, [&] { return cuGraphUpload(exec, stream); });
    spoils(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, [&] {
        CUresult joined = cuEventRecord(fork, stream);
        if (joined == CUDA_SUCCESS) joined = cuStreamWaitEvent(other, fork, 0);
        return joined ? joined : cuStreamEndCapture(other, &graph);
    });
    // The time of an event of a capture is refused, and does it no harm.
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(timed, stream));
    SAYS(CUDA_ERROR_CAPTURED_EVENT, cuEventElapsedTime(&milliseconds, timed, timed));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(empty));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(timed));
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
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);  // a query does no harm
    SAYS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32(at, 1, 1));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(blocking, &graph));
    OK(cuStreamDestroy(blocking));
}

// As an H100 answers: asked of another stream, or for what else a stream has, they do no harm.
TEST_F(SoftGraph, AQuestionForTheFlagsOrTheDeviceOfAStreamEndsItsCapture) {
    CUstream other;
    CUgraph graph;
    CUdevice device;
    CUcontext its;
    unsigned flags;
    int priority;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    const auto ends = [&](auto ask) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuStreamGetCtx(stream, &its));
        OK(cuStreamGetPriority(stream, &priority));
        OK(ask(other));
        OK(cuMemsetD32Async(at, 1, 1, stream));
        SAYS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ask(stream));
        SAYS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
        OK(ask(stream));
    };
    ends([&](CUstream s) { return cuStreamGetFlags(s, &flags); });
    ends([&](CUstream s) { return cuStreamGetDevice(s, &device); });
    OK(cuStreamDestroy(other));
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
    CUgraphNode node = frontier[0];
    SAYS(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroyNode(node));  // the next node would come after it
    OK(cuMemsetD32Async(at, 2, 1, stream));
    OK(cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(seen, graph);
    OK(cuGraphDestroyNode(node));
    CUgraph other;
    OK(cuGraphCreate(&other, 0));
    OK(cuGraphAddEmptyNode(&node, other, nullptr, 0));
    SAYS(CUDA_ERROR_INVALID_VALUE,
         cuStreamBeginCaptureToGraph(stream, graph, &node, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGraphDestroy(other));
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

// Its work continues, but its capture can no longer end.
TEST_F(SoftGraph, AStreamThatIsDestroyedWhileItCapturesHoldsNoOther) {
    CUstream blocking, joined;
    CUevent fork;
    CUstreamCaptureStatus status;
    static std::atomic<bool> go;
    go = false;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&joined, CU_STREAM_DEFAULT));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(
        blocking, [](void*) { go.wait(false); }, nullptr));
    OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(fork, blocking));
    OK(cuStreamWaitEvent(joined, fork, 0));
    SAYS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(nullptr, &status));
    OK(cuStreamDestroy(blocking));
    OK(cuStreamIsCapturing(nullptr, &status));
    OK(cuStreamIsCapturing(joined, &status));
    EXPECT_EQ(CU_STREAM_CAPTURE_STATUS_NONE, status);
    go = true;
    go.notify_all();
    OK(cuCtxSynchronize());
    OK(cuEventDestroy(fork));
    OK(cuStreamDestroy(joined));
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

// In the order of the calls, whatever the work's progress.
TEST_F(SoftGraph, IsNotLaunchedAgainBeforeItsMemoryIsFreed) {
    CUgraph graph;
    CUgraphExec exec, automatic;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS asked{};
    asked.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    asked.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    asked.bytesize = 1024;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &asked));
    OK(cuGraphInstantiate(&exec, graph, 0));
    static std::atomic<bool> go;
    go = false;
    OK(cuLaunchHostFunc(
        stream, [](void*) { go.wait(false); }, nullptr));
    OK(cuGraphLaunch(exec, stream));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    OK(cuMemFreeAsync(asked.dptr, stream));
    OK(cuGraphLaunch(exec, stream));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    go = true;
    go.notify_all();
    OK(cuStreamSynchronize(stream));
    SAYS(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    OK(cuMemFree(asked.dptr));
    launch(exec);
    OK(cuMemFree(asked.dptr));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiate(&automatic, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    launch(automatic);
    launch(automatic);
    OK(cuMemFree(asked.dptr));
    OK(cuGraphExecDestroy(automatic));
    OK(cuGraphDestroy(graph));
}

}  // namespace
