// SPDX-License-Identifier: Apache-2.0
// capture.cc: stream capture, and cuStream*Capture*.
#include "soft-gpu/driver/capture.h"

#include <algorithm>
#include <set>
#include <utility>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph.h"

namespace barcuda::soft::driver {
namespace {

void require_valid(const Capture& capture) { require(!capture.invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED); }

void add_to_frontier(Stream& stream, const std::vector<GraphNode*>& nodes) {
    for (GraphNode* node : nodes)
        if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end())
            stream.frontier.push_back(node);
}

void append(Stream& stream, std::shared_ptr<Operation> operation) {
    std::lock_guard lock(graphs_mutex());
    GraphNode& node = stream.capture->graph->add(std::move(operation), stream.frontier);
    stream.frontier = {&node};
}

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

Capture::Capture(std::shared_ptr<Graph> graph) : graph(std::move(graph)) { ++this->graph->captures; }
void Capture::end() {
    if (!std::exchange(ended, true)) --graph->captures;
}

void capture_operation(Stream& stream, std::shared_ptr<Operation> operation) {
    require_valid(*stream.capture);
    append(stream, std::move(operation));
}

void invalidate_capture(Stream& stream) {
    if (stream.capture) stream.capture->invalid = true;
}

void refuse_in_capture(Stream& stream) {
    if (!stream.capture) return;
    invalidate_capture(stream);
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}
void refuse_while_capturing(Stream& stream) {
    std::lock_guard order(stream.context().order);
    refuse_in_capture(stream);
}

void refuse_legacy_while_capturing(const std::vector<std::shared_ptr<Stream>>& streams) {
    for (const auto& stream : streams) {
        if (!stream->capture || !stream->blocking()) continue;
        stream->capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
}

bool record_in_capture(Stream& stream, Event& event) {
    std::lock_guard order(stream.context().order);
    if (!stream.capture) return false;
    require_valid(*stream.capture);
    std::lock_guard lock(event.mutex);
    event.capture = stream.capture;
    event.captured = stream.frontier;
    event.record = nullptr;
    return true;
}

bool wait_in_capture(Stream& stream, const std::shared_ptr<Event>& event, unsigned flags) {
    std::lock_guard order(stream.context().order);
    std::lock_guard lock(event->mutex);
    if (flags & CU_EVENT_WAIT_EXTERNAL) {
        if (!stream.capture) return false;
        require_valid(*stream.capture);
        auto wait = std::make_shared<EventWait>();
        wait->event = event;
        append(stream, std::move(wait));
        return true;
    }
    if (!event->capture) {
        // A captured graph cannot depend on work that was not captured.
        if (stream.capture && event->record) {
            stream.capture->invalid = true;
            fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        }
        return stream.capture != nullptr;
    }
    require(!event->capture->ended);
    require_valid(*event->capture);
    if (!stream.capture) {
        require(stream.last().stream != nullptr);
        stream.capture = event->capture;
        stream.frontier = event->captured;
        stream.capture->members.push_back(stream.shared_from_this());
        return true;
    }
    if (stream.capture != event->capture) {
        stream.capture->invalid = event->capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    add_to_frontier(stream, event->captured);
    return true;
}

void refuse_captured(Event& event) {
    std::lock_guard lock(event.mutex);
    if (!event.capture) return;
    if (!event.capture->ended) event.capture->invalid = true;
    fail(CUDA_ERROR_CAPTURED_EVENT);
}

namespace {

void begin(CUstream handle, CUstreamCaptureMode mode, std::shared_ptr<Graph> graph, const CUgraphNode* after,
           std::size_t count) {
    require(mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    const auto stream = stream_of(handle);
    require(stream != stream->context().legacy(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    std::lock_guard order(stream->context().order);
    require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    auto capture = std::make_shared<Capture>(std::move(graph));
    std::vector<GraphNode*> frontier = nodes_of(after, count);  // from here on no node is removed
    for (const GraphNode* node : frontier) require(&node->graph == capture->graph.get());
    capture->id = Driver::get().next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream.get();
    capture->members = {stream};
    stream->capture = std::move(capture);
    stream->frontier = std::move(frontier);
}

void end_members(Capture& capture) {
    capture.end();
    for (const auto& member : capture.members) {
        member->capture = nullptr;
        member->frontier.clear();
    }
}

// The last nodes of all members come before the origin's: the end of the graph depends on all of them.
bool joined(const Capture& capture) {
    std::set<const GraphNode*> reached;
    std::vector<const GraphNode*> left(capture.origin->frontier.begin(), capture.origin->frontier.end());
    while (!left.empty()) {
        const GraphNode* const node = left.back();
        left.pop_back();
        if (!reached.insert(node).second) continue;
        left.insert(left.end(), node->after.begin(), node->after.end());
    }
    return std::all_of(capture.members.begin(), capture.members.end(), [&](const auto& member) {
        return std::all_of(member->frontier.begin(), member->frontier.end(),
                           [&](const GraphNode* node) { return reached.count(node) != 0; });
    });
}

void end(CUstream handle, CUgraph* made) {
    if (made) *made = nullptr;  // a caller that captures to its own graph has it, and may pass null
    const auto stream = stream_of(handle);
    std::lock_guard order(stream->context().order);
    const auto capture = stream->capture;
    require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream.get()) {
        capture->invalid = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    }
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    const bool whole = joined(*capture);
    end_members(*capture);
    require(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(whole, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (made)
        *made = Driver::get().graphs.try_find(capture->graph->handle()) ? capture->graph->handle()
                                                                        : Driver::get().graphs.add(capture->graph);
}

struct Info {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* frontier = nullptr;  // valid until the stream's next call, as CUDA says
    std::size_t count = 0;
};
Info info(CUstream handle) {
    const auto stream = stream_of(handle);
    std::lock_guard order(stream->context().order);
    const auto& capture = stream->capture;
    // While a stream that waits for the legacy stream captures, the legacy stream's state is unknown; but the query
    // does the capture no harm.
    require(!stream->context().is_held_by_capture(*stream), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (!capture) return {};
    static_assert(sizeof(GraphNode*) == sizeof(CUgraphNode));  // a handle is its node's address
    if (!Driver::get().graphs.try_find(capture->graph->handle())) Driver::get().graphs.add(capture->graph);
    return {capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE, capture->id,
            capture->graph->handle(), reinterpret_cast<const CUgraphNode*>(stream->frontier.data()),
            stream->frontier.size()};
}

CUresult put_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** frontier, const CUgraphEdgeData** edges, std::size_t* count, const char* name) {
    return api(
        [&] {
            require(status);
            const Info of = info(stream);
            *status = of.status;
            if (of.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
            if (id) *id = of.id;
            if (graph) *graph = of.graph;
            if (frontier) *frontier = of.frontier;
            if (edges) *edges = nullptr;  // all are plain
            if (count) *count = of.count;
        },
        name);
}

}  // namespace

void abandon_capture(Stream& stream) {
    if (const auto capture = stream.capture; capture && capture->origin == &stream) {
        capture->invalid = true;
        end_members(*capture);
    }
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    return api([&] { begin(hStream, mode, std::make_shared<Graph>(), nullptr, 0); });
}
CUresult cuStreamBeginCapture(CUstream hStream) {
    return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData*, size_t numDependencies, CUstreamCaptureMode mode) {
    return api([&] { begin(hStream, mode, Driver::get().graphs.find(hGraph), dependencies, numDependencies); });
}
CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
    return api([&] { end(hStream, phGraph); });
}
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
    return put_info(hStream, captureStatus, nullptr, nullptr, nullptr, nullptr, nullptr, "cuStreamIsCapturing");
}
CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out) {
    return put_info(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr, nullptr, "cuStreamGetCaptureInfo");
}
CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                   size_t* numDependencies_out) {
    return put_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out,
                    "cuStreamGetCaptureInfo");
}
CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out,
                                   CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                   const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
    return put_info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out,
                    "cuStreamGetCaptureInfo");
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                           unsigned int flags) {
    return api([&] {
        require(flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES);
        const auto stream = stream_of(hStream);
        const auto nodes = nodes_of(dependencies, numDependencies);
        std::lock_guard order(stream->context().order);
        require(stream->capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
        require_valid(*stream->capture);
        for (const GraphNode* node : nodes) require(&node->graph == stream->capture->graph.get());
        if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream->frontier.clear();
        add_to_frontier(*stream, nodes);
    });
}
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies, const CUgraphEdgeData*,
                                              size_t numDependencies, unsigned int flags) {
    return cuStreamUpdateCaptureDependencies(hStream, dependencies, numDependencies, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return api([&] {
        require(mode && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
        std::swap(*mode, thread_mode);
    });
}
