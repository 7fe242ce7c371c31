// SPDX-License-Identifier: Apache-2.0
// graph.cc: graphs as wholes: what they consist of, instantiation, update, launch. What is inside nodes: graph_node.cc.
#include "guest-allocator/driver/graph.h"
#include "guest-allocator/driver/managed.h"

#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/fence.h"

using namespace barcuda;

namespace {

// A list of nodes as CUDA hands it out: null asks for the number; what is left of the room is cleared.
CUresult hand_out(const std::vector<CUgraphNode>& all, CUgraphNode* nodes, size_t* count) {
    const size_t room = nodes ? *count : 0;
    for (size_t i = 0; i < room; ++i) nodes[i] = i < all.size() ? all[i] : nullptr;
    *count = nodes ? std::min(room, all.size()) : all.size();
    return CUDA_SUCCESS;
}

// Everything that `ask(nodes, count)` has, as the program knows it.
template <class Ask> CUresult collect(std::vector<CUgraphNode>& all, Ask ask) {
    size_t count = 0;
    if (CUresult r = ask(nullptr, &count); r != CUDA_SUCCESS) return r;
    std::vector<CUgraphNode> nodes(count);
    if (count)
        if (CUresult r = ask(nodes.data(), &count); r != CUDA_SUCCESS) return r;
    if (count < nodes.size()) return CUDA_ERROR_NOT_SUPPORTED;  // more than a command's reply can hold
    for (CUgraphNode node : nodes) {
        const CUgraphNode its = shown(node);
        if (std::find(all.begin(), all.end(), its) == all.end()) all.push_back(its);
    }
    return CUDA_SUCCESS;
}

bool plain(const CUgraphEdgeData* edges, size_t count) {
    for (size_t i = 0; edges && i < count; ++i)
        if (edges[i].from_port || edges[i].to_port || edges[i].type) return false;
    return true;
}

}  // namespace

CU cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    const CUresult r =
        collect(all, [&](CUgraphNode* n, size_t* c) { return command<Op::cuGraphGetNodes>(graph, n, c); });
    return r == CUDA_SUCCESS ? hand_out(all, nodes, count) : r;
}
CU cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    const CUresult r =
        collect(all, [&](CUgraphNode* n, size_t* c) { return command<Op::cuGraphGetRootNodes>(graph, n, c); });
    return r == CUDA_SUCCESS ? hand_out(all, nodes, count) : r;
}
CU cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    const CUresult r = collect(all, [&](CUgraphNode* n, size_t* c) {
        return command<Op::cuGraphNodeGetDependencies_v2>(first_of(node), n, static_cast<CUgraphEdgeData*>(nullptr), c);
    });
    if (r != CUDA_SUCCESS) return r;
    if (edges) std::fill_n(edges, *count, CUgraphEdgeData{});
    return hand_out(all, nodes, count);
}
CU cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUgraphNode> all;
    const CUresult r = collect(all, [&](CUgraphNode* n, size_t* c) {
        return command<Op::cuGraphNodeGetDependentNodes_v2>(last_of(node), n, static_cast<CUgraphEdgeData*>(nullptr),
                                                            c);
    });
    if (r != CUDA_SUCCESS) return r;
    if (edges) std::fill_n(edges, *count, CUgraphEdgeData{});
    return hand_out(all, nodes, count);
}
CU cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    size_t there = 0;
    const auto ask = [&](CUgraphNode* f, CUgraphNode* t, CUgraphEdgeData* e) {
        return command<Op::cuGraphGetEdges_v2>(graph, f, t, e, &there);
    };
    if (CUresult r = ask(nullptr, nullptr, nullptr); r != CUDA_SUCCESS) return r;
    std::vector<CUgraphNode> froms(there), tos(there), shown_from, shown_to;
    std::vector<CUgraphEdgeData> data(there);
    if (there)
        if (CUresult r = ask(froms.data(), tos.data(), data.data()); r != CUDA_SUCCESS) return r;
    if (there < froms.size()) return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < there; ++i) {
        if (shown(froms[i]) == shown(tos[i])) continue;
        shown_from.push_back(shown(froms[i])), shown_to.push_back(shown(tos[i]));
    }
    size_t froms_room = *count;
    if (edges) std::fill_n(edges, *count, CUgraphEdgeData{});
    hand_out(shown_from, from, &froms_room);
    return hand_out(shown_to, to, count);
}

CU cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                             const CUgraphEdgeData* edges, size_t count) {
    if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
    if (!plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<CUgraphNode> f = lasts(from, count), t;
    for (size_t i = 0; i < count; ++i) t.push_back(first_of(to[i]));
    return command<Op::cuGraphAddDependencies_v2>(graph, f.data(), t.data(), edges, count);
}
CU cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* edges, size_t count) {
    if (count && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
    if (!plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
    std::vector<CUgraphNode> f = lasts(from, count), t;
    for (size_t i = 0; i < count; ++i) t.push_back(first_of(to[i]));
    return command<Op::cuGraphRemoveDependencies_v2>(graph, f.data(), t.data(), edges, count);
}

CU cuGraphDestroyNode(CUgraphNode node) {
    const CUgraphNode first = first_of(node), last = last_of(node);
    if (first != node)
        if (CUresult r = command<Op::cuGraphDestroyNode>(first); r != CUDA_SUCCESS) return r;
    if (last != node)
        if (CUresult r = command<Op::cuGraphDestroyNode>(last); r != CUDA_SUCCESS) return r;
    return command<Op::cuGraphDestroyNode>(node);
}

CU cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
    if (!exec || !p) return CUDA_ERROR_INVALID_VALUE;
    p->hErrNode_out = nullptr;
    constexpr auto upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    CUresult r = command<Op::cuGraphInstantiateWithFlags>(exec, graph, p->flags & ~cuuint64_t{upload});
    if (r == CUDA_SUCCESS && p->flags & upload) r = command<Op::cuGraphUpload>(*exec, p->hUploadStream);
    p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CU cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why) {
    if (!why) return CUDA_ERROR_INVALID_VALUE;
    CUresult verdict = CUDA_ERROR_UNKNOWN;
    const CUresult r = command<Op::exec_update>(exec, graph, why, &verdict);
    if (r != CUDA_SUCCESS) return r;
    if (why->errorNode) why->errorNode = shown(why->errorNode);
    if (why->errorFromNode) why->errorFromNode = shown(why->errorFromNode);
    return verdict;
}

CU cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    const Mirrors mirrors(stream);
    return command<Op::cuGraphLaunch>(exec, stream);
}

// Work that uses them may still be under way: the driver puts it off by itself.
