// SPDX-License-Identifier: Apache-2.0
// graph_copy.cc: copies in graphs. What the device reaches is named in the copy's node. Of other host memory (a stack,
// small blocks, a file's mapping) the node is a child graph: a function of the guest's fills a buffer in the region,
// then comes the copy, then a function empties a buffer. So the program's graph has one node for one copy, and edges,
// clones, updates and counts are the driver's own.
//
// No table of such nodes is kept: their functions' numbers stand in the driver's graph and say what they are. A buffer
// belongs to the rows of the program's memory that it stands in for, and lives as long as the process, since graphs do
// not say when their last clone is gone: a copy of the same memory, in whatever graph, uses the same buffer. That is
// safe, because two copies at once that could meet there would meet in the program's memory as well.
#include "guest-allocator/driver/graph_copy.h"

#include <string.h>

#include <map>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/sides.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest {
namespace {

// Rows of the program's memory that a buffer stands in for, before a copy (it is filled) or behind one (it is emptied).
struct Rows {
    Side side;
    std::size_t width, height, depth;
    bool fill;
    auto operator<=>(const Rows&) const = default;
};
struct Buffer {
    std::byte* packed = nullptr;
    std::uint64_t function = 0;  // the number under which the worker asks for move()
};
using Transfer = std::pair<const Rows, Buffer>;

Mutex mutex;
std::map<Rows, Buffer>& transfers() {
    static auto& map = *new std::map<Rows, Buffer>;  // never destroyed: graphs may still run
    return map;
}
std::atomic<bool> any{false};

void CUDA_CB move(void* transfer) {
    const auto& [rows, buffer] = *static_cast<const Transfer*>(transfer);
    std::byte* packed = buffer.packed;
    for (std::size_t z = 0; z < rows.depth; ++z)
        for (std::size_t y = 0; y < rows.height; ++y, packed += rows.width) {
            std::byte* const row = rows.side.row(y, z);
            rows.fill ? memcpy(packed, row, rows.width) : memcpy(row, packed, rows.width);
        }
}

// The function that moves such rows; 0: the region has no room for their buffer. `near` is the buffer as a side of the
// copy.
std::uint64_t transfer(const Side& side, const CUDA_MEMCPY3D& c, bool fill, Side& near) {
    std::lock_guard lock(mutex);
    const auto at = transfers().try_emplace({side, c.WidthInBytes, c.Height, c.Depth, fill}).first;
    Buffer& buffer = at->second;
    if (!buffer.packed)
        buffer.packed = static_cast<std::byte*>(heap::staging_alloc(c.WidthInBytes * c.Height * c.Depth));
    if (buffer.packed && !buffer.function) buffer.function = keep_function(move, &*at);
    near = {CU_MEMORYTYPE_HOST, buffer.packed, c.WidthInBytes, c.Height, 0, 0, 0};
    any.store(true, std::memory_order_release);
    return buffer.function;
}

// A copy as the driver gets it.
struct Plan {
    CUDA_MEMCPY3D copy;                 // between what the device reaches
    std::uint64_t fill = 0, empty = 0;  // functions before and behind it; 0: none
    bool staged() const { return fill || empty; }
};
CUresult make_plan(const CUDA_MEMCPY3D* asked, Plan& p) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    p.copy = *asked;
    Side source, target, from, to;
    if (CUresult r = find_sides(p.copy, source, target); r != CUDA_SUCCESS) return r;
    const bool near_source = reaches(source, p.copy, from), near_target = reaches(target, p.copy, to);
    if ((!near_source && !(p.fill = transfer(source, p.copy, true, from))) ||
        (!near_target && !(p.empty = transfer(target, p.copy, false, to)))) {
        if (logs_debug())
            log_line("a graph's copy of %zu bytes of pageable memory: the region has no room for its buffer",
                     p.copy.WidthInBytes * p.copy.Height * p.copy.Depth);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    put_source(p.copy, from);
    put_target(p.copy, to);
    return CUDA_SUCCESS;
}

// The child graph of a staged copy, for as long as `use(child)` takes: a node keeps a clone of its own.
template <class Use> CUresult with_child(const Plan& p, CUcontext context, Use use) {
    CUgraph child = nullptr;
    if (CUresult r = command<Op::cuGraphCreate>(&child, 0u); r != CUDA_SUCCESS) return r;
    CUgraphNode before = nullptr, copy = nullptr, behind = nullptr;
    CUresult r = CUDA_SUCCESS;
    if (p.fill) r = command<Op::add_host_node>(&before, child, nullptr, std::size_t{0}, p.fill);
    if (r == CUDA_SUCCESS)
        r = command<Op::cuGraphAddMemcpyNode>(&copy, child, &before, std::size_t{p.fill != 0}, &p.copy, context);
    if (r == CUDA_SUCCESS && p.empty) r = command<Op::add_host_node>(&behind, child, &copy, std::size_t{1}, p.empty);
    if (r == CUDA_SUCCESS) r = use(child);
    command<Op::cuGraphDestroy>(child);
    return r;
}

// What is in a node that is such a child graph. All null: it is another node.
struct StagedNode {
    CUgraphNode copy = nullptr;
    struct Function {
        CUgraphNode node = nullptr;
        const Rows* rows = nullptr;
        explicit operator bool() const { return node; }
    } fill, empty;
    explicit operator bool() const { return copy; }
};
StagedNode inside(CUgraphNode node) {
    if (!any.load(std::memory_order_acquire)) return {};
    CUgraphNodeType type{};
    CUgraph child = nullptr;
    CUgraphNode nodes[4];  // more than such a graph has
    std::size_t count = std::size(nodes);
    if (command<Op::cuGraphNodeGetType>(node, &type) != CUDA_SUCCESS || type != CU_GRAPH_NODE_TYPE_GRAPH ||
        command<Op::cuGraphChildGraphNodeGetGraph>(node, &child) != CUDA_SUCCESS ||
        command<Op::cuGraphGetNodes>(child, nodes, &count) != CUDA_SUCCESS || count == std::size(nodes))
        return {};
    StagedNode all;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t number = 0;
        CUDA_HOST_NODE_PARAMS function{};
        if (command<Op::cuGraphNodeGetType>(nodes[i], &type) != CUDA_SUCCESS) return {};
        if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            all.copy = nodes[i];
            continue;
        }
        if (type != CU_GRAPH_NODE_TYPE_HOST || command<Op::host_node>(nodes[i], &number) != CUDA_SUCCESS ||
            !kept_function(number, function) || function.fn != move)
            return {};
        const Rows& rows = static_cast<const Transfer*>(function.userData)->first;
        (rows.fill ? all.fill : all.empty) = {nodes[i], &rows};
    }
    return all.fill || all.empty ? all : StagedNode{};
}

// A node's kind, and the nodes of its child graph, are what they are.
CUresult fits(const StagedNode& node, const Plan& p) {
    if ((p.fill != 0) == !!node.fill && (p.empty != 0) == !!node.empty) return CUDA_SUCCESS;
    if (logs_debug())
        log_line(
            "a graph's copy node cannot change between memory that the device reaches and pageable memory: remove it "
            "and add it again");
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult capture_staged(const CUDA_MEMCPY3D& copy, CUstream stream) noexcept {
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    const CUgraphNode* after = nullptr;
    std::size_t count = 0;
    if (CUresult r = cuStreamGetCaptureInfo_v3(stream, &status, nullptr, &graph, &after, nullptr, &count);
        r != CUDA_SUCCESS)
        return r;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUgraphNode node = nullptr;
    if (CUresult r = cuGraphAddMemcpyNode(&node, graph, after, count, &copy, nullptr); r != CUDA_SUCCESS) return r;
    return command<Op::cuStreamUpdateCaptureDependencies_v2>(stream, &node, nullptr, std::size_t{1},
                                                             unsigned{CU_STREAM_SET_CAPTURE_DEPENDENCIES});
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                        const CUDA_MEMCPY3D* copy, CUcontext context) {
    Plan p;
    if (CUresult r = make_plan(copy, p); r != CUDA_SUCCESS) return r;
    if (!context) context = current_context();
    if (!p.staged()) return command<Op::cuGraphAddMemcpyNode>(node, graph, after, count, &p.copy, context);
    return with_child(p, context, [&](CUgraph child) {
        return command<Op::cuGraphAddChildGraphNode>(node, graph, after, count, child);
    });
}

CU cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy) {
    const StagedNode staged = inside(node);
    const CUresult r = command<Op::cuGraphMemcpyNodeGetParams>(staged ? staged.copy : node, copy);
    if (r != CUDA_SUCCESS) return r;
    if (staged.fill) put_source(*copy, staged.fill.rows->side);
    if (staged.empty) put_target(*copy, staged.empty.rows->side);
    return r;
}

CU cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
    Plan p;
    if (CUresult r = make_plan(copy, p); r != CUDA_SUCCESS) return r;
    const StagedNode staged = inside(node);
    if (CUresult r = fits(staged, p); r != CUDA_SUCCESS) return r;
    CUresult r = command<Op::cuGraphMemcpyNodeSetParams>(staged ? staged.copy : node, &p.copy);
    if (r == CUDA_SUCCESS && staged.fill) r = command<Op::set_host_node>(staged.fill.node, p.fill);
    if (r == CUDA_SUCCESS && staged.empty) r = command<Op::set_host_node>(staged.empty.node, p.empty);
    return r;
}

CU cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy, CUcontext context) {
    Plan p;
    if (CUresult r = make_plan(copy, p); r != CUDA_SUCCESS) return r;
    if (CUresult r = fits(inside(node), p); r != CUDA_SUCCESS) return r;
    if (!context) context = current_context();
    if (!p.staged()) return command<Op::cuGraphExecMemcpyNodeSetParams>(exec, node, &p.copy, context);
    return with_child(
        p, context, [&](CUgraph child) { return command<Op::cuGraphExecChildGraphNodeSetParams>(exec, node, child); });
}

CU cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
    const CUresult r = command<Op::cuGraphNodeGetType>(node, type);
    if (r == CUDA_SUCCESS && *type == CU_GRAPH_NODE_TYPE_GRAPH && inside(node)) *type = CU_GRAPH_NODE_TYPE_MEMCPY;
    return r;
}

// The driver enables and disables kernels, fills and copies, but no child graphs.
CU cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    if (!inside(node)) return command<Op::cuGraphNodeSetEnabled>(exec, node, enabled);
    if (enabled) return CUDA_SUCCESS;
    if (logs_debug()) log_line("a graph's copy of pageable memory cannot be disabled: use pinned memory");
    return CUDA_ERROR_NOT_SUPPORTED;
}
CU cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
    if (!enabled || !inside(node)) return command<Op::cuGraphNodeGetEnabled>(exec, node, enabled);
    *enabled = 1;
    return CUDA_SUCCESS;
}
