// SPDX-License-Identifier: Apache-2.0
// capture.cc: stream capture. The driver on the host captures; the guest only has to know while one is open, because
// fences, staging and waits have no place in a graph.
#include "guest-allocator/driver/capture.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/os/thread_end.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/streams.h"

namespace barcuda::guest {

bool ask_capturing(CUstream stream) noexcept {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return command<Op::cuStreamIsCapturing>(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

namespace {

// A capture that has begun; each has an entry until the program ends it.
struct OpenCapture {
    CUstream stream;  // where it began
    CUstreamCaptureMode mode;
    std::uint64_t thread;
    CUgraph into;  // null: the capture makes a graph
};
Mutex mutex;
std::vector<OpenCapture>& opened() {
    static auto* list = new std::vector<OpenCapture>;  // never destroyed: programs capture in static destructors
    return *list;
}
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::uint64_t this_thread() noexcept {  // not a thread's id, which another one may have later
    static std::atomic<std::uint64_t> threads{0};
    static thread_local const std::uint64_t number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
    return number;
}

void close(CUstream stream) noexcept {
    std::lock_guard lock(mutex);
    if (std::erase_if(opened(), [&](const OpenCapture& o) { return o.stream == stream; }) == 0) return;
    open_captures.fetch_sub(1, std::memory_order_relaxed);
    stop_watching_calls();
}

// CUDA's rule (cuThreadExchangeStreamCaptureMode): a thread's own captures count, and, for a thread in the global mode,
// those of other threads that began in the global mode.
bool forbids(const OpenCapture& o) noexcept {
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || o.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    return o.thread == this_thread() ||
           (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && o.mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

// Counted before the lock is taken: a thread that holds the lock and sees no open capture is ahead of this one.
template <class Begin> CUresult open(CUstream stream, CUstreamCaptureMode mode, CUgraph into, Begin begin) {
    open_captures.fetch_add(1, std::memory_order_relaxed);
    const std::unique_lock nobody_else = before_capture(stream);
    const CUresult r = begin();
    if (r != CUDA_SUCCESS) {
        open_captures.fetch_sub(1, std::memory_order_relaxed);
        return r;
    }
    std::lock_guard lock(mutex);
    opened().push_back({real(stream), mode, this_thread(), into});
    watch_calls();
    return r;
}

// What cuStreamGetCaptureInfo hands out lives until this thread's next question.
struct Asked {
    std::vector<CUgraphNode> nodes;
    std::vector<CUgraphEdgeData> edges;
};
constinit thread_local Asked* asked = nullptr;
constinit os::ThreadEnd thread_end{[]() noexcept { delete std::exchange(asked, nullptr); }};
Asked& asked_by_thread() {
    if (!asked) {
        asked = new Asked;
        thread_end.await();
    }
    return *asked;
}

}  // namespace

// The driver's own answer to a wait for such a stream.
CUresult spoil_capture(CUstream stream) noexcept {
    const InContext in(context_of(stream));
    return command<Op::cuStreamSynchronize>(stream);
}

CUresult spoil_captures_that_hold(CUstream stream) noexcept {
    if (open_captures.load(std::memory_order_relaxed) == 0 || real(stream)) return CUDA_SUCCESS;
    std::unique_lock lock = hold_captures();
    const bool held = is_closed(stream, current_context());
    lock.unlock();
    const CUresult r = held ? command<Op::cuStreamQuery>(stream) : CUDA_SUCCESS;  // the driver's own answer, as above
    return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;                          // the capture has ended meanwhile
}

CUresult forbidden_by_captures() noexcept {
    std::vector<OpenCapture> forbidding;
    {
        std::lock_guard lock(mutex);
        std::ranges::copy_if(opened(), std::back_inserter(forbidding), forbids);
    }
    bool forbidden = false;
    for (const OpenCapture& o : forbidding) {
        const InContext in(context_of(o.stream));
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        const CUresult r = command<Op::cuStreamIsCapturing>(o.stream, &status);
        // Its stream was destroyed, or its context.
        if (r == CUDA_ERROR_INVALID_HANDLE || (r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE))
            close(o.stream);
        if (r != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE) continue;
        forbidden = true;
        if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) spoil_capture(o.stream);
    }
    return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return open(stream, mode, nullptr, [&] { return command<Op::cuStreamBeginCapture_v2>(stream, mode); });
}
CU cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                               size_t count, CUstreamCaptureMode mode) {
    return open(stream, mode, graph,
                [&] { return command<Op::cuStreamBeginCaptureToGraph>(stream, graph, after, edges, count, mode); });
}

CU cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    bool own = true;
    CUgraph into = nullptr;
    {
        std::lock_guard lock(mutex);
        const auto o = std::ranges::find(opened(), real(stream), &OpenCapture::stream);
        if (o != opened().end()) {
            own = o->mode == CU_STREAM_CAPTURE_MODE_RELAXED || o->thread == this_thread();
            into = o->into;
        }
    }
    CUgraph captured = nullptr;  // of a capture to a graph the program has it already, and may pass null
    const CUresult r = command<Op::cuStreamEndCapture>(stream, &captured);
    if (!own) {  // the capture is over all the same (seen on an H100)
        if (captured && !into) cuGraphDestroy(captured);
        close(real(stream));
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (graph) *graph = captured;
    // An invalidated capture is over, too; a stream that was not capturing ends none.
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED || r == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        close(real(stream));
    return r;
}

CU cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (const InStreamsContext in{stream}; in.error) return in.error;
    if (open_captures.load(std::memory_order_relaxed) > 0) return command<Op::cuStreamIsCapturing>(stream, status);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CU cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                             const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    if (const InStreamsContext in{stream}; in.error) return in.error;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t its_id = 0;
    CUgraph its_graph = nullptr;
    std::size_t its_count = 64;
    auto& [its_nodes, its_edges] = asked_by_thread();
    if (open_captures.load(std::memory_order_relaxed) > 0)
        for (std::size_t room = its_count;; room = its_count) {
            its_nodes.resize(room);
            if (CUresult r =
                    command<Op::capture_info>(stream, status, &its_id, &its_graph, its_nodes.data(), &its_count);
                r != CUDA_SUCCESS)
                return r;
            if (its_count <= room) break;
        }
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) its_count = 0;
    its_edges.assign(its_count, CUgraphEdgeData{});
    if (id) *id = its_id;
    if (graph) *graph = its_graph;
    if (nodes) *nodes = its_nodes.data();
    if (edges) *edges = its_edges.data();
    if (count) *count = its_count;
    return CUDA_SUCCESS;
}

// The worker's thread is in the relaxed mode, so that its own work is never hindered: which calls the modes forbid is
// decided here (admission.h).
CU cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    if (!mode) return CUDA_ERROR_INVALID_VALUE;  // of other numbers NVIDIA's driver (580) says nothing
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
}
