// SPDX-License-Identifier: Apache-2.0
// capture.cc: stream capture. The driver on the host captures; the guest only has to know while one is open, because
// fences, staging and waits have no place in a graph.
#include "guest-allocator/driver/capture.h"

#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {

std::atomic<int> open_captures{0};

bool ask_capturing(CUstream stream) noexcept {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return command<Op::cuStreamIsCapturing>(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

namespace {

// Counted before the lock is taken: a thread that holds the lock and sees no open capture is ahead of this one.
template <class Begin> CUresult open(CUstream stream, Begin begin) {
    open_captures.fetch_add(1, std::memory_order_relaxed);
    const std::unique_lock nobody_else = before_capture(stream);
    const CUresult r = begin();
    if (r != CUDA_SUCCESS) open_captures.fetch_sub(1, std::memory_order_relaxed);
    return r;
}

// What cuStreamGetCaptureInfo hands out lives until this thread's next question.
thread_local std::vector<CUgraphNode> asked_nodes;
thread_local std::vector<CUgraphEdgeData> asked_edges;

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return open(stream, [&] { return command<Op::cuStreamBeginCapture_v2>(stream, mode); });
}
CU cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                               size_t count, CUstreamCaptureMode mode) {
    return open(stream,
                [&] { return command<Op::cuStreamBeginCaptureToGraph>(stream, graph, after, edges, count, mode); });
}

CU cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    CUgraph captured = nullptr;  // of a capture to a graph the program has it already, and may pass null
    const CUresult r = command<Op::cuStreamEndCapture>(stream, &captured);
    if (graph) *graph = captured;
    // A capture that had gone wrong is over too; a stream that was not capturing ends none.
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED || r == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        open_captures.fetch_sub(1, std::memory_order_relaxed);
    return r;
}

CU cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (open_captures.load(std::memory_order_relaxed) > 0) return command<Op::cuStreamIsCapturing>(stream, status);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CU cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                             const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t its_id = 0;
    CUgraph its_graph = nullptr;
    std::size_t its_count = 64;
    if (open_captures.load(std::memory_order_relaxed) > 0)
        for (std::size_t room = its_count;; room = its_count) {
            asked_nodes.resize(room);
            if (CUresult r =
                    command<Op::capture_info>(stream, status, &its_id, &its_graph, asked_nodes.data(), &its_count);
                r != CUDA_SUCCESS)
                return r;
            if (its_count <= room) break;
        }
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) its_count = 0;
    asked_edges.assign(its_count, CUgraphEdgeData{});
    if (id) *id = its_id;
    if (graph) *graph = its_graph;
    if (nodes) *nodes = asked_nodes.data();
    if (edges) *edges = asked_edges.data();
    if (count) *count = its_count;
    return CUDA_SUCCESS;
}

// The worker never forbids a call because somebody captures, so that its own work is not hindered: what is left of the
// mode is its value.
CU cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
}
