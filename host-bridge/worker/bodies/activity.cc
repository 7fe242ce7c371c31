// SPDX-License-Identifier: Apache-2.0
// activity.cc: what the GPU has done, for a client's profiler. (The guest's half: guest-allocator/cupti.)
#include "host-bridge/worker/session/session.h"

namespace barcuda::ext {

CUresult record_activity(std::uint64_t kinds, std::uint32_t* said) {
    if (kinds & ~recorded_kinds) return CUDA_ERROR_INVALID_VALUE;
    // Launches that are held would leave as one.
    session().launches().flush();
    return session().recording().record(kinds, *said);
}

CUresult take_activity(std::uint32_t flush, char* records, std::size_t room, Taken* taken) {
    return session().recording().take(flush, std::as_writable_bytes(std::span(records, room)), *taken);
}

CUresult activity_context(CUcontext context, std::uint32_t* number) {
    return session().recording().number_of(context, *number);
}
CUresult activity_stream(CUcontext context, CUstream stream, std::uint32_t* number) {
    return session().recording().number_of(context, stream, *number);
}
CUresult activity_graph(CUgraph graph, std::uint32_t* number) {
    return session().recording().number_of(graph, *number);
}
CUresult activity_exec(CUgraphExec exec, std::uint32_t* number) {
    return session().recording().number_of(exec, *number);
}
CUresult activity_node(CUgraphNode node, std::uint64_t* number) {
    return session().recording().number_of(node, *number);
}

}  // namespace barcuda::ext
