// SPDX-License-Identifier: Apache-2.0
// graph_node.cc: what is inside nodes. Kernels' parameters travel packed, functions of the program stay here under a
// number, and copies of memory that the GPU cannot reach get a hidden neighbour (graph.h).
#include <stdlib.h>
#include <string.h>

#include <unordered_map>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/graph.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/launch.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda {
namespace {

// A program's copy node whose host side is not in the region.
struct Detour {
    CUgraphNode before = nullptr, after = nullptr;
    CUDA_MEMCPY3D asked{};  // as the program described it
};
struct Moved {  // what a hidden node does
    void *to, *from;
    std::size_t bytes;
};
Mutex mutex;
// Empty for nearly all programs. An id is never used twice, so entries of graphs that are gone do no harm.
std::unordered_map<CUgraphNode, Detour>& detours() {
    static auto* map = new std::unordered_map<CUgraphNode, Detour>;
    return *map;
}
std::unordered_map<CUgraphNode, CUgraphNode>& owners() {  // of hidden nodes
    static auto* map = new std::unordered_map<CUgraphNode, CUgraphNode>;
    return *map;
}
std::atomic<bool> any_detours{false};

void CUDA_CB move(void* what) {
    const Moved* m = static_cast<Moved*>(what);
    memcpy(m->to, m->from, m->bytes);
}
std::uint64_t keep_move(void* to, void* from, std::size_t bytes) {
    return keep_function(move, new Moved{to, from, bytes});  // as long as the process: see capture_copy
}

bool detour_of(CUgraphNode node, Detour& out) {
    if (!any_detours.load(std::memory_order_acquire)) return false;
    std::lock_guard lock(mutex);
    const auto at = detours().find(node);
    if (at == detours().end()) return false;
    out = at->second;
    return true;
}

// The buffers that stand in for host sides outside the region.
struct StandIns {
    CUDA_MEMCPY3D copy;
    void *source = nullptr, *target = nullptr;  // the program's memory, where it is outside
    void *source_buffer = nullptr, *target_buffer = nullptr;
    std::size_t bytes = 0;
};
CUresult stand_in(const CUDA_MEMCPY3D& asked, StandIns& s) {
    s.copy = asked;
    const CUresult r = box_for_node(s.copy);
    if (r != CUDA_ERROR_NOT_SUPPORTED) return r;
    if (asked.Height != 1 || asked.Depth != 1) return r;  // a box of memory that the GPU cannot reach
    s.bytes = asked.WidthInBytes;
    const auto outside = [&](CUmemorytype type, void* start) {
        return type == CU_MEMORYTYPE_HOST && !heap::reach(start, s.bytes);
    };
    CUDA_MEMCPY3D& c = s.copy;  // box_for_node has said of each side which kind it is
    auto* from = static_cast<char*>(const_cast<void*>(c.srcHost)) +
                 (c.srcMemoryType == CU_MEMORYTYPE_HOST ? c.srcY * c.srcPitch + c.srcXInBytes : 0);
    auto* to = static_cast<char*>(c.dstHost) +
               (c.dstMemoryType == CU_MEMORYTYPE_HOST ? c.dstY * c.dstPitch + c.dstXInBytes : 0);
    if (c.srcZ || c.dstZ) return r;
    if (outside(c.srcMemoryType, from)) {
        if (!(s.source_buffer = heap::staging_alloc(s.bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
        s.source = from, c.srcHost = s.source_buffer, c.srcXInBytes = c.srcY = 0, c.srcPitch = s.bytes, c.srcHeight = 1;
    }
    if (outside(c.dstMemoryType, to)) {
        if (!(s.target_buffer = heap::staging_alloc(s.bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
        s.target = to, c.dstHost = s.target_buffer, c.dstXInBytes = c.dstY = 0, c.dstPitch = s.bytes, c.dstHeight = 1;
    }
    return box_for_node(c);
}

struct Packed {
    alignas(16) std::byte room[wire::most_parameter_bytes];
    CUfunction function = nullptr;
    ext::Shape shape{};
    const void* parameters = nullptr;
    std::size_t bytes = 0;

    CUresult from(const CUDA_KERNEL_NODE_PARAMS& p) {
        if ((p.func != nullptr) == (p.kern != nullptr)) return CUDA_ERROR_INVALID_VALUE;
        function = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
        shape = {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes, 0};
        CUresult error = CUDA_SUCCESS;
        const FunctionFacts* f = facts(function, error);
        return f ? pack(*f, p.kernelParams, p.extra, room, parameters, bytes) : error;
    }
};

// What cuGraphKernelNodeGetParams points to: one block a node, until the next question about it.
void** keep_parameters(CUgraphNode node, const FunctionFacts& f, const std::byte* packed) {
    static auto* blocks = new std::unordered_map<CUgraphNode, void*>;
    const std::size_t pointers = f.parameter_count * sizeof(void*);
    auto* block = static_cast<std::byte*>(malloc(pointers + padded(f.parameter_bytes) + 16));
    if (!block) return nullptr;
    auto* each = reinterpret_cast<void**>(block);
    memcpy(block + pointers, packed, f.parameter_bytes);
    for (std::uint32_t i = 0; i < f.parameter_count; ++i) each[i] = block + pointers + f.parameters()[i].offset;
    std::lock_guard lock(mutex);
    void*& place = (*blocks)[node];
    free(place);
    place = block;
    return each;
}

}  // namespace

CUgraphNode first_of(CUgraphNode node) noexcept {
    Detour d;
    return detour_of(node, d) && d.before ? d.before : node;
}
CUgraphNode last_of(CUgraphNode node) noexcept {
    Detour d;
    return detour_of(node, d) && d.after ? d.after : node;
}
CUgraphNode shown(CUgraphNode node) noexcept {
    if (!any_detours.load(std::memory_order_acquire)) return node;
    std::lock_guard lock(mutex);
    const auto at = owners().find(node);
    return at == owners().end() ? node : at->second;
}
bool hidden(CUgraphNode node) noexcept { return shown(node) != node; }

}  // namespace barcuda

using namespace barcuda;

namespace {
// Node-adding calls take dependencies as the program knows them.
template <Op op, class... Rest>
CUresult add(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, Rest... rest) {
    if (!node || (count && !after)) return CUDA_ERROR_INVALID_VALUE;
    const std::vector<CUgraphNode> nodes = lasts(after, count);
    return command<op>(node, graph, static_cast<const CUgraphNode*>(nodes.data()), count, rest...);
}
}  // namespace

// ---- kernels ------------------------------------------------------------------------------------------------------
CU cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS* p) {
    Packed k;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = k.from(*p); r != CUDA_SUCCESS) return r;
    return add<Op::add_kernel_node>(node, graph, after, count, k.function, k.shape, k.parameters, k.bytes);
}
CU cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
    Packed k;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = k.from(*p); r != CUDA_SUCCESS) return r;
    return command<Op::set_kernel_node>(node, k.function, k.shape, k.parameters, k.bytes);
}
CU cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
    Packed k;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = k.from(*p); r != CUDA_SUCCESS) return r;
    return command<Op::exec_set_kernel_node>(exec, node, k.function, k.shape, k.parameters, k.bytes);
}
CU cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    Packed k;
    if (CUresult r = command<Op::kernel_node>(node, &k.function, &k.shape, static_cast<void*>(k.room), sizeof k.room);
        r != CUDA_SUCCESS)
        return r;
    CUresult error = CUDA_SUCCESS;
    const FunctionFacts* f = facts(k.function, error);
    if (!f) return error;
    void** each = keep_parameters(node, *f, k.room);
    if (!each) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = {k.function,
          k.shape.grid[0],
          k.shape.grid[1],
          k.shape.grid[2],
          k.shape.block[0],
          k.shape.block[1],
          k.shape.block[2],
          k.shape.shared_bytes,
          each,
          nullptr,
          nullptr,
          current_context()};
    return CUDA_SUCCESS;
}

// ---- copies ---------------------------------------------------------------------------------------------------------
CU cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                        const CUDA_MEMCPY3D* p, CUcontext context) {
    if (!p || !node) return CUDA_ERROR_INVALID_VALUE;
    if (!context) context = current_context();
    StandIns s;
    if (CUresult r = stand_in(*p, s); r != CUDA_SUCCESS) return r;
    const CUDA_MEMCPY3D* copy = &s.copy;
    if (!s.source && !s.target) return add<Op::cuGraphAddMemcpyNode>(node, graph, after, count, copy, context);
    Detour d;
    d.asked = *p;
    if (s.source) {
        const std::uint64_t fill = keep_move(s.source_buffer, s.source, s.bytes);
        if (CUresult r = add<Op::add_host_node>(&d.before, graph, after, count, fill); r != CUDA_SUCCESS) return r;
        after = &d.before, count = 1;
    }
    if (CUresult r = add<Op::cuGraphAddMemcpyNode>(node, graph, after, count, copy, context); r != CUDA_SUCCESS)
        return r;
    if (s.target) {
        const std::uint64_t empty = keep_move(s.target, s.target_buffer, s.bytes);
        const CUgraphNode its = *node;
        if (CUresult r = add<Op::add_host_node>(&d.after, graph, &its, 1, empty); r != CUDA_SUCCESS) return r;
    }
    std::lock_guard lock(mutex);
    if (d.before) owners()[d.before] = *node;
    if (d.after) owners()[d.after] = *node;
    detours()[*node] = d;
    any_detours.store(true, std::memory_order_release);
    return CUDA_SUCCESS;
}

CU cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* p) {
    Detour d;
    if (p && detour_of(node, d)) return *p = d.asked, CUDA_SUCCESS;
    return command<Op::cuGraphMemcpyNodeGetParams>(node, p);
}

namespace {
// Other memory for a copy node: `set_copy` and `set_host` do it, to the graph's node or to an executable graph's.
template <class SetCopy, class SetHost>
CUresult change_copy(CUgraphNode node, const CUDA_MEMCPY3D* p, SetCopy set_copy, SetHost set_host) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    Detour d;
    StandIns s;
    detour_of(node, d);
    if (CUresult r = stand_in(*p, s); r != CUDA_SUCCESS) return r;
    if ((s.source != nullptr) != (d.before != nullptr) || (s.target != nullptr) != (d.after != nullptr))
        return CUDA_ERROR_NOT_SUPPORTED;  // the graph would need other nodes than it has
    if (s.source)
        if (CUresult r = set_host(d.before, keep_move(s.source_buffer, s.source, s.bytes)); r != CUDA_SUCCESS) return r;
    if (s.target)
        if (CUresult r = set_host(d.after, keep_move(s.target, s.target_buffer, s.bytes)); r != CUDA_SUCCESS) return r;
    return set_copy(static_cast<const CUDA_MEMCPY3D*>(&s.copy));
}
}  // namespace

CU cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
    const CUresult r = change_copy(
        node, p, [&](const CUDA_MEMCPY3D* c) { return command<Op::cuGraphMemcpyNodeSetParams>(node, c); },
        [&](CUgraphNode n, std::uint64_t f) { return command<Op::set_host_node>(n, f); });
    std::lock_guard lock(mutex);
    if (const auto at = detours().find(node); r == CUDA_SUCCESS && at != detours().end()) at->second.asked = *p;
    return r;
}
CU cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* p, CUcontext context) {
    if (!context) context = current_context();
    return change_copy(
        node, p,
        [&](const CUDA_MEMCPY3D* c) { return command<Op::cuGraphExecMemcpyNodeSetParams>(exec, node, c, context); },
        [&](CUgraphNode n, std::uint64_t f) { return command<Op::exec_set_host_node>(exec, n, f); });
}

// ---- fills, functions, events, graphs in graphs, memory -------------------------------------------------------------
CU cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                        const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
    return add<Op::cuGraphAddMemsetNode>(node, graph, after, count, p, context ? context : current_context());
}
CU cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p,
                                  CUcontext context) {
    return command<Op::cuGraphExecMemsetNodeSetParams>(exec, node, p, context ? context : current_context());
}

CU cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                      const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t number = keep_function(p->fn, p->userData);
    return number ? add<Op::add_host_node>(node, graph, after, count, number) : CUDA_ERROR_OUT_OF_MEMORY;
}
CU cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
    std::uint64_t number = 0;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = command<Op::host_node>(node, &number); r != CUDA_SUCCESS) return r;
    return kept_function(number, *p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CU cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::set_host_node>(node, keep_function(p->fn, p->userData));
}
CU cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::exec_set_host_node>(exec, node, keep_function(p->fn, p->userData));
}

CU cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count) {
    return add<Op::cuGraphAddEmptyNode>(node, graph, after, count);
}
CU cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUgraph child) {
    return add<Op::cuGraphAddChildGraphNode>(node, graph, after, count, child);
}
CU cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUevent event) {
    recorded_by_graph(event);
    return add<Op::cuGraphAddEventRecordNode>(node, graph, after, count, event);
}
CU cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
    recorded_by_graph(event);
    return command<Op::cuGraphEventRecordNodeSetEvent>(node, event);
}
CU cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    recorded_by_graph(event);
    return command<Op::cuGraphExecEventRecordNodeSetEvent>(exec, node, event);
}
CU cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUevent event) {
    return add<Op::cuGraphAddEventWaitNode>(node, graph, after, count, event);
}
CU cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS* p) {
    return add<Op::cuGraphAddMemAllocNode>(node, graph, after, count, p);
}
CU cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUdeviceptr p) {
    return add<Op::cuGraphAddMemFreeNode>(node, graph, after, count, p);
}

// ---- nodes of any kind by one structure -----------------------------------------------------------------------------
namespace {
CUDA_KERNEL_NODE_PARAMS kernel_of(const CUDA_KERNEL_NODE_PARAMS_v3& k) {
    return {k.func,      k.gridDimX,       k.gridDimY,     k.gridDimZ, k.blockDimX, k.blockDimY,
            k.blockDimZ, k.sharedMemBytes, k.kernelParams, k.extra,    k.kern,      k.ctx};
}
CUDA_MEMSET_NODE_PARAMS fill_of(const CUDA_MEMSET_NODE_PARAMS_v2& m) {
    return {m.dst, m.pitch, m.value, m.elementSize, m.width, m.height};
}
}  // namespace

CU cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                     size_t count, CUgraphNodeParams* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; edges && i < count; ++i)
        if (edges[i].from_port || edges[i].to_port || edges[i].type) return CUDA_ERROR_NOT_SUPPORTED;
    switch (p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS k = kernel_of(p->kernel);
            return cuGraphAddKernelNode_v2(node, graph, after, count, &k);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return cuGraphAddMemcpyNode(node, graph, after, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS m = fill_of(p->memset);
            return cuGraphAddMemsetNode(node, graph, after, count, &m, p->memset.ctx);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS h{p->host.fn, p->host.userData};
            return cuGraphAddHostNode(node, graph, after, count, &h);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphAddChildGraphNode(node, graph, after, count, p->graph.graph);
        case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(node, graph, after, count);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return cuGraphAddEventWaitNode(node, graph, after, count, p->eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return cuGraphAddEventRecordNode(node, graph, after, count, p->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS_v1 a{p->alloc.poolProps, p->alloc.accessDescs, p->alloc.accessDescCount,
                                            p->alloc.bytesize, 0};
            const CUresult r = cuGraphAddMemAllocNode(node, graph, after, count, &a);
            return p->alloc.dptr = a.dptr, r;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(node, graph, after, count, p->free.dptr);
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CU cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS k = kernel_of(p->kernel);
            return cuGraphKernelNodeSetParams_v2(node, &k);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY: return cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS m = fill_of(p->memset);
            return cuGraphMemsetNodeSetParams(node, &m);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS h{p->host.fn, p->host.userData};
            return cuGraphHostNodeSetParams(node, &h);
        }
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphEventWaitNodeSetEvent(node, p->eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return cuGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CU cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* p) {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: {
            const CUDA_KERNEL_NODE_PARAMS k = kernel_of(p->kernel);
            return cuGraphExecKernelNodeSetParams_v2(exec, node, &k);
        }
        case CU_GRAPH_NODE_TYPE_MEMCPY:
            return cuGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx);
        case CU_GRAPH_NODE_TYPE_MEMSET: {
            const CUDA_MEMSET_NODE_PARAMS m = fill_of(p->memset);
            return cuGraphExecMemsetNodeSetParams(exec, node, &m, p->memset.ctx);
        }
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS h{p->host.fn, p->host.userData};
            return cuGraphExecHostNodeSetParams(exec, node, &h);
        }
        case CU_GRAPH_NODE_TYPE_GRAPH: return cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return cuGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return cuGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event);
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}
