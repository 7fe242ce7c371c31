// SPDX-License-Identifier: Apache-2.0
// graph.cc: graphs as wholes: instantiation, update, launch. What is inside nodes: graph_node.cc, graph_copy.cc.
#include <cstdio>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/managed.h"

using namespace barcuda::guest;

CU cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
    if (!exec || !p) return CUDA_ERROR_INVALID_VALUE;
    p->hErrNode_out = nullptr;
    constexpr auto upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    CUresult r = command<Op::cuGraphInstantiateWithFlags>(exec, graph, p->flags & ~cuuint64_t{upload});
    if (r == CUDA_SUCCESS && p->flags & upload) r = command<Op::cuGraphUpload>(*exec, p->hUploadStream);
    // Of a graph that is not for the device's launches the host says no more than that.
    p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                    : r == CUDA_ERROR_INVALID_VALUE && p->flags == CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
                        ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                        : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CU cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why) {
    if (!why) return CUDA_ERROR_INVALID_VALUE;
    CUresult verdict = CUDA_ERROR_UNKNOWN;
    const CUresult r = command<Op::exec_update>(exec, graph, why, &verdict);
    return r == CUDA_SUCCESS ? verdict : r;
}

CU cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    std::string text;
    std::vector<char> part(32 << 10);
    for (std::uint64_t all = 1; text.size() < all;) {
        const CUresult r = command<Op::graph_text>(graph, flags, text.size(), part.data(), part.size(), &all);
        if (r != CUDA_SUCCESS) return r;
        if (all <= text.size()) break;  // another thread changes the graph meanwhile
        text.append(part.data(), std::min<std::uint64_t>(part.size(), all - text.size()));
    }
    FILE* file = fopen(path, "we");
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
    return fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CU cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    const InStreamsContext in{stream};
    if (in.error) return in.error;
    std::optional<managed::Exclusive> exclusive;
    if (graphs_call()) exclusive.emplace(stream);
    return command<Op::cuGraphLaunch>(exec, stream);
}
