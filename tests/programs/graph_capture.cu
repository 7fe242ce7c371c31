// SPDX-License-Identifier: Apache-2.0
// graph_capture: a captured graph reads and writes its memory at every launch, wherever that lies: pinned memory, the
// heap, the stack. A copy is one node of the graph wherever its memory lies, and stays so in clones, updates and
// changes. Functions of the program run in the graph's order; a wait in a capture is the error that CUDA says it is.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

constexpr int n = 3000;

__global__ void add(const int* a, int* b, int what) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] + what;
}

__global__ void late(volatile int* word) {
    for (long long start = clock64(); clock64() - start < 100000000;) {}
    *word = 1;
}

// A stream that has joined a capture may be destroyed before the capture ends; what it was given before goes on, and is
// waited for.
static void helper_gone_in_a_capture(cudaStream_t stream, int* a, int* b, int* result) {
    cudaStream_t helper;
    cudaEvent_t fork, join;
    int* word;
    CHECK(cudaMallocHost(&word, sizeof *word));
    *word = 0;
    CHECK(cudaStreamCreateWithFlags(&helper, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&fork));
    CHECK(cudaEventCreate(&join));
    late<<<1, 1, 0, helper>>>(word);
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(a, 0, n * sizeof(int), stream));
    CHECK(cudaEventRecord(fork, stream));
    CHECK(cudaStreamWaitEvent(helper, fork, 0));
    add<<<(n + 255) / 256, 256, 0, helper>>>(a, b, 5);
    CHECK(cudaEventRecord(join, helper));
    CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(cudaStreamDestroy(helper));
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a thread that looks after what is under way looks now
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaDeviceSynchronize());
    REQUIRE(*static_cast<volatile int*>(word) == 1);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(result, b, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) REQUIRE(result[i] == 5);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaFreeHost(word));
}

struct Log {
    int calls = 0;
    const int* result;
    long long sum = 0;
};
void CUDART_CB look(void* data) {
    Log* log = static_cast<Log*>(data);
    ++log->calls;
    log->sum = 0;
    for (int i = 0; i < n; ++i) log->sum += log->result[i];
}

// The graph is one chain of nodes of these kinds.
static std::vector<cudaGraphNode_t> check_chain(cudaGraph_t graph, const std::vector<cudaGraphNodeType>& kinds) {
    std::vector<cudaGraphNode_t> chain(1);
    size_t count = 1;
    CHECK(cudaGraphGetRootNodes(graph, chain.data(), &count));
    for (size_t i = 0;; ++i) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(chain[i], &type));
        REQUIRE(i < kinds.size() && type == kinds[i]);
        cudaGraphNode_t next[2];
        CHECK(cudaGraphNodeGetDependentNodes(chain[i], next, nullptr, &(count = 2)));
        if (count == 0) {
            REQUIRE(chain.size() == kinds.size());
            return chain;
        }
        REQUIRE(count == 1);
        chain.push_back(next[0]);
    }
}

static void run(cudaGraphExec_t exec, cudaStream_t stream) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// A graph that copies the stack to the device and back to the stack: clones, updates, changed parameters.
static void copies_of_the_stack(cudaStream_t stream, int* device) {
    int from[n], also_from[n], to[n], also_to[n];
    const std::vector<cudaGraphNodeType> two_copies(2, cudaGraphNodeTypeMemcpy);
    const auto fill = [](int* words, int by) {
        for (int i = 0; i < n; ++i) words[i] = i * by;
    };
    const auto holds = [](const int* words, int by) {
        for (int i = 0; i < n; ++i)
            if (words[i] != i * by) return false;
        return true;
    };
    cudaGraph_t graph, clone;
    cudaGraphNode_t in, out;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, device, from, sizeof from, cudaMemcpyHostToDevice));
    CHECK(cudaGraphAddMemcpyNode1D(&out, graph, &in, 1, to, device, sizeof to, cudaMemcpyDeviceToHost));
    size_t edges = 0;
    CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
    REQUIRE(edges == 1);
    REQUIRE(check_chain(graph, two_copies) == std::vector({in, out}));
    cudaMemcpy3DParms described{};
    CHECK(cudaGraphMemcpyNodeGetParams(in, &described));
    REQUIRE(described.srcPtr.ptr == from && described.dstPtr.ptr == device && described.extent.width == sizeof from);
    CHECK(cudaGraphMemcpyNodeGetParams(out, &described));
    REQUIRE(described.srcPtr.ptr == device && described.dstPtr.ptr == to);

    // A clone is a graph of its own, with the same nodes; the graph's parameters may change afterwards.
    CHECK(cudaGraphClone(&clone, graph));
    const auto cloned = check_chain(clone, two_copies);
    cudaGraphNode_t found;
    CHECK(cudaGraphNodeFindInClone(&found, out, clone));
    REQUIRE(found == cloned[1]);
    CHECK(cudaGraphMemcpyNodeGetParams(found, &described));
    REQUIRE(described.dstPtr.ptr == to);
    CHECK(cudaGraphMemcpyNodeSetParams1D(in, device, also_from, sizeof from, cudaMemcpyHostToDevice));
    CHECK(cudaGraphMemcpyNodeGetParams(in, &described));
    REQUIRE(described.srcPtr.ptr == also_from);
    fill(from, 3), fill(also_from, 4);
    cudaGraphExec_t of_clone, of_graph;
    CHECK(cudaGraphInstantiate(&of_clone, clone, 0));
    CHECK(cudaGraphInstantiate(&of_graph, graph, 0));
    run(of_clone, stream);
    REQUIRE(holds(to, 3));
    run(of_graph, stream);
    REQUIRE(holds(to, 4));

    // Executable graphs: one node's parameters, and all by another graph.
    fill(to, 0), fill(also_to, 0);
    CHECK(cudaGraphExecMemcpyNodeSetParams1D(of_graph, out, also_to, device, sizeof to, cudaMemcpyDeviceToHost));
    run(of_graph, stream);
    REQUIRE(holds(to, 0) && holds(also_to, 4));
    cudaGraphExecUpdateResultInfo why;
    CHECK(cudaGraphExecUpdate(of_graph, clone, &why));
    run(of_graph, stream);
    REQUIRE(holds(to, 3));

    // Removed like any other node.
    CHECK(cudaGraphDestroyNode(out));
    REQUIRE(check_chain(graph, {cudaGraphNodeTypeMemcpy}) == std::vector({in}));
    CHECK(cudaGraphExecDestroy(of_clone));
    CHECK(cudaGraphExecDestroy(of_graph));
    CHECK(cudaGraphDestroy(clone));
    CHECK(cudaGraphDestroy(graph));
}

// Rows out of the middle of a picture on the stack, captured.
static void rows_of_the_stack(cudaStream_t stream, int* device) {
    constexpr int width = 40, height = 30, across = 7, down = 5;
    int picture[height][width], result[height][width];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpy2DAsync(device, across * sizeof(int), &picture[10][20], sizeof picture[0], across * sizeof(int),
                            down, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpy2DAsync(&result[3][4], sizeof result[0], device, across * sizeof(int), across * sizeof(int), down,
                            cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    check_chain(graph, {cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemcpy});
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 2; ++round) {
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) picture[y][x] = (round + 1) * 10000 + y * 100 + x, result[y][x] = -1;
        run(exec, stream);
        for (int y = 0; y < height; ++y)
            for (int x = 0; x < width; ++x) {
                const bool inside = y >= 3 && y < 3 + down && x >= 4 && x < 4 + across;
                REQUIRE(result[y][x] == (inside ? picture[y + 7][x + 16] : -1));
            }
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

__global__ void put(int* where, int value) { *where = value; }

// A kernel that need not wait for the whole of the one before it (programmatic dependent launch): the edge says so.
static void programmatic_edge(cudaStream_t stream, int* device) {
    cudaGraph_t graph;
    cudaGraphNode_t nodes[2];
    CHECK(cudaGraphCreate(&graph, 0));
    int* where[] = {device, device + 1};
    int values[] = {11, 22};
    for (int i = 0; i < 2; ++i) {
        void* arguments[] = {&where[i], &values[i]};
        cudaGraphNodeParams p{};
        p.type = cudaGraphNodeTypeKernel;
        p.kernel.func = (void*)put;
        p.kernel.gridDim = p.kernel.blockDim = dim3(1);
        p.kernel.kernelParams = arguments;
        cudaGraphEdgeData edge{};
        edge.from_port = cudaGraphKernelNodePortProgrammatic;
        edge.type = cudaGraphDependencyTypeProgrammatic;
        CHECK(cudaGraphAddNode(&nodes[i], graph, nodes, &edge, i, &p));
    }
    cudaGraphNode_t from, to;
    cudaGraphEdgeData edge{};
    size_t count = 1;
    CHECK(cudaGraphGetEdges(graph, &from, &to, &edge, &count));
    REQUIRE(count == 1 && from == nodes[0] && to == nodes[1]);
    REQUIRE(edge.type == cudaGraphDependencyTypeProgrammatic && edge.from_port == cudaGraphKernelNodePortProgrammatic);
    REQUIRE(cudaGraphGetEdges(graph, &from, &to, nullptr, &count) == cudaErrorLossyQuery);
    cudaGetLastError();
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    run(exec, stream);
    int got[2] = {};
    CHECK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    REQUIRE(got[0] == 11 && got[1] == 22);
    // Twice the same dependency is none at all, and leaves the graph as it was.
    cudaGraphNode_t again[] = {nodes[1], nodes[1]}, none;
    REQUIRE(cudaGraphAddEmptyNode(&none, graph, again, 2) != cudaSuccess);
    cudaGetLastError();
    CHECK(cudaGraphGetNodes(graph, nullptr, &count));
    REQUIRE(count == 2);
    CHECK(cudaGraphNodeGetDependentNodes(nodes[1], nullptr, nullptr, &count));
    REQUIRE(count == 0);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// A graph as text: as many nodes and edges as it has, in a file of ours.
static void drawn(cudaGraph_t graph, size_t nodes) {
    char path[] = "/tmp/barcuda-graph-XXXXXX";
    const int file = mkstemp(path);
    REQUIRE(file >= 0);
    CHECK(cudaGraphDebugDotPrint(graph, path, 0));
    std::string text(1 << 20, 0);
    text.resize(read(file, &text[0], text.size()));
    close(file), unlink(path);
    REQUIRE(text.find("digraph") != text.npos && text.find('}') != text.npos);
    size_t arrows = 0;
    for (size_t at = 0; (at = text.find("->", at)) != text.npos; ++at) ++arrows;
    REQUIRE(arrows >= nodes - 1);
    REQUIRE(cudaGraphDebugDotPrint(graph, "/no/such/folder/graph", 0) != cudaSuccess);
    cudaGetLastError();
}

static void CUDART_CB count_it(void* count) { ++*static_cast<std::atomic<int>*>(count); }

// What a graph keeps goes with its last user: the graph, its clones, its executable graphs, the program.
static void kept_by_graphs(cudaStream_t stream) {
    static std::atomic<int> gone[3];
    const auto becomes = [](int i) {  // destructors come when they come
        for (int waited = 0; waited < 5000 && !gone[i]; ++waited)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return gone[i] == 1;
    };
    cudaUserObject_t object[3];
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec;
    CHECK(cudaGraphCreate(&graph, 0));
    for (int i = 0; i < 3; ++i)
        CHECK(cudaUserObjectCreate(&object[i], &gone[i], count_it, 1, cudaUserObjectNoDestructorSync));
    REQUIRE(cudaUserObjectCreate(&object[0], nullptr, nullptr, 1, cudaUserObjectNoDestructorSync) != cudaSuccess);
    REQUIRE(cudaUserObjectCreate(&object[0], nullptr, count_it, 0, cudaUserObjectNoDestructorSync) != cudaSuccess);
    cudaGetLastError();
    CHECK(cudaGraphRetainUserObject(graph, object[0], 1, cudaGraphUserObjectMove));
    CHECK(cudaGraphRetainUserObject(graph, object[1], 2, 0));
    CHECK(cudaUserObjectRetain(object[1], 2));
    CHECK(cudaUserObjectRelease(object[2], 1));
    REQUIRE(becomes(2));
    CHECK(cudaGraphClone(&clone, graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphExecDestroy(exec));
    REQUIRE(gone[0] == 0 && gone[1] == 0);
    CHECK(cudaGraphReleaseUserObject(clone, object[1], 2));
    CHECK(cudaUserObjectRelease(object[1], 2));
    REQUIRE(gone[1] == 0);
    CHECK(cudaUserObjectRelease(object[1], 1));
    REQUIRE(becomes(1));
    REQUIRE(gone[0] == 0);
    CHECK(cudaGraphDestroy(clone));
    REQUIRE(becomes(0));
}

int main() {
    int on_stack[n], result[n];
    int *a, *b;
    CHECK(cudaMalloc(&a, sizeof on_stack));
    CHECK(cudaMalloc(&b, sizeof on_stack));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    Log log{0, result};

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(a, on_stack, sizeof on_stack, cudaMemcpyHostToDevice, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, 7);
    CHECK(cudaMemcpyAsync(result, b, sizeof result, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, look, &log));
    cudaGraph_t graph;
    CHECK(cudaStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    REQUIRE(nodes == 4);
    check_chain(graph,
                {cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeHost});
    drawn(graph, nodes);
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < n; ++i) on_stack[i] = i * (round + 1);
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        long long expected = 0;
        for (int i = 0; i < n; ++i) {
            REQUIRE(result[i] == i * (round + 1) + 7);
            expected += result[i];
        }
        REQUIRE(log.calls == round + 1);
        REQUIRE(log.sum == expected);
    }

    copies_of_the_stack(stream, a);
    rows_of_the_stack(stream, a);
    programmatic_edge(stream, a);
    kept_by_graphs(stream);

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    REQUIRE(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t spoilt = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &spoilt) == cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    CHECK(cudaStreamSynchronize(stream));
    helper_gone_in_a_capture(stream, a, b, result);
    std::printf("three launches of a captured graph, %d calls back\nPASSED\n", log.calls);
    return 0;
}
