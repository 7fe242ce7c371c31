// SPDX-License-Identifier: Apache-2.0
// stream.cc: streams and events: fences after their work, captures, and functions of the program in the work. (The
// guest's half: guest-allocator/driver/stream.cc, event.cc, capture.cc, host_function.cc.)
#include <algorithm>
#include <cstring>

#include "host-bridge/worker/bodies/attributes.h"
#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {
// The kind `fence` has told the session what the command promised.
CUresult write_fence(CUstream stream, Fence) { return session().fences().write(stream); }

CUresult record_event(CUevent event, CUstream stream, unsigned flags, Fence) {
    const CUresult r = driver().cuEventRecordWithFlags(event, stream, flags);
    return r == CUDA_SUCCESS && !session().streams().capturing(stream) ? session().fences().write(stream) : r;
}

CUresult launch_host(CUstream stream, std::uint64_t function, unsigned with_status) {
    void* const data = Calls::as_data(function);
    if (with_status) return driver().cuStreamAddCallback(stream, &Calls::run_with_status, data, 0);
    return driver().cuLaunchHostFunc(stream, &Calls::run, data);
}

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      CUgraphNode* nodes, std::size_t* count) {
    const CUgraphNode* found = nullptr;
    const CUgraphEdgeData* edges = nullptr;
    const std::size_t room = *count;
    *count = 0;
    const CUresult r = driver().cuStreamGetCaptureInfo_v3(stream, status, id, graph, &found, &edges, count);
    if (r != CUDA_SUCCESS) return r;
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        *graph = nullptr;
        *count = 0;
        return CUDA_SUCCESS;
    }
    if (*graph && !session().handles().has(*graph)) session().captured(stream, *graph);
    if (nodes && found) std::memcpy(nodes, found, std::min(room, *count) * sizeof *nodes);
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext

namespace barcuda::body {
// Succeeds if there is nothing to wait for (and then shows what kernels have printed), and fails if waiting is an error
// (in a capture). Otherwise it returns CUDA_ERROR_NOT_READY: the worker never waits for a GPU.
BODY(cuStreamSynchronize)(CUstream stream) {
    return session().streams().done(stream) ? driver().cuStreamSynchronize(stream) : CUDA_ERROR_NOT_READY;
}

BODY(cuStreamEndCapture)(CUstream stream, CUgraph* graph) {
    const CUresult r = driver().cuStreamEndCapture(stream, graph);
    session().capture_ended(stream, r == CUDA_SUCCESS ? *graph : nullptr);
    return r;
}

BODY(cuEventSynchronize)(CUevent event) {
    const CUresult r = driver().cuEventQuery(event);
    return r == CUDA_SUCCESS ? driver().cuEventSynchronize(event) : r;
}

// A stream has none of the attributes that only launches have.
BODY(cuStreamGetAttribute)(CUstream stream, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
    if (admitted(id, nullptr) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuStreamGetAttribute(stream, id, value);
}
BODY(cuStreamSetAttribute)(CUstream stream, CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (admitted(id, value) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuStreamSetAttribute(stream, id, value);
}

}  // namespace barcuda::body
