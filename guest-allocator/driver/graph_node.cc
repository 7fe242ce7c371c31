// SPDX-License-Identifier: Apache-2.0
// graph_node.cc: the parameters of nodes, except copies (graph_copy.cc). Kernels' parameters travel packed; functions
// of the program stay here under a number.
#include <stdlib.h>
#include <string.h>

#include <unordered_map>
#include <vector>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/mutex.h"
#include "guest-allocator/driver/capture.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/graph_node.h"
#include "guest-allocator/driver/host_function.h"
#include "guest-allocator/driver/launch.h"

namespace barcuda::guest {
namespace {

struct Packed {
    alignas(16) std::byte room[wire::most_parameter_bytes];
    CUfunction function = nullptr;
    ext::Shape shape{};
    const void* parameters = nullptr;
    std::size_t bytes = 0;

    CUresult from(const CUDA_KERNEL_NODE_PARAMS& p) {
        if (p.func && p.kern) return CUDA_ERROR_INVALID_VALUE;
        if (!p.func && !p.kern) return CUDA_ERROR_INVALID_HANDLE;
        function = p.func ? p.func : reinterpret_cast<CUfunction>(p.kern);
        shape = {{p.gridDimX, p.gridDimY, p.gridDimZ}, {p.blockDimX, p.blockDimY, p.blockDimZ}, p.sharedMemBytes, 0};
        CUresult error = CUDA_SUCCESS;
        const FunctionFacts* f = facts(function, error);
        return f ? pack(*f, p.kernelParams, p.extra, room, parameters, bytes) : error;
    }
};

// What cuGraphKernelNodeGetParams points to.
void** keep_parameters(CUgraphNode node, const FunctionFacts& f, const std::byte* packed) {
    const std::size_t pointers = f.parameter_count * sizeof(void*);
    auto* block = static_cast<std::byte*>(malloc(pointers + padded(f.parameter_bytes) + 16));
    if (!block) return nullptr;
    auto* each = reinterpret_cast<void**>(block);
    memcpy(block + pointers, packed, f.parameter_bytes);
    for (std::uint32_t i = 0; i < f.parameter_count; ++i) each[i] = block + pointers + f.parameters()[i].offset;
    keep_block(node, block);
    return each;
}

}  // namespace

void keep_block(CUgraphNode node, void* block) noexcept {
    static Mutex mutex;
    static auto* blocks = new std::unordered_map<std::uint32_t, void*>;
    std::lock_guard lock(mutex);
    void*& place = (*blocks)[static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(node))];
    free(place);
    place = block;
}

}  // namespace barcuda::guest

using namespace barcuda::guest;

// ---- kernels ------------------------------------------------------------------------------------------------------
CU cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS* p) {
    Packed k;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = k.from(*p); r != CUDA_SUCCESS) return r;
    return command<Op::add_kernel_node>(node, graph, after, count, k.function, k.shape, k.parameters, k.bytes);
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

// ---- fills, functions, events, graphs in graphs, memory -------------------------------------------------------------
// The worker reaches all of the region: only here it is known what of it is the program's, and still is.
static bool may_be_filled(const CUDA_MEMSET_NODE_PARAMS* p) {
    return !p ||
           look_at(p->dst, crossing::rows_bytes(p->pitch, p->width * p->elementSize, p->height)) != Named::refused;
}
CU cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                        const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
    if (!may_be_filled(p)) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::cuGraphAddMemsetNode>(node, graph, after, count, p, context ? context : current_context());
}
CU cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p,
                                  CUcontext context) {
    if (!may_be_filled(p)) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::cuGraphExecMemsetNodeSetParams>(exec, node, p, context ? context : current_context());
}

CU cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUevent event) {
    if (!event) return CUDA_ERROR_INVALID_VALUE;  // elsewhere it is an invalid handle
    return command<Op::cuGraphAddEventWaitNode>(node, graph, after, count, event);
}

CU cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count,
                      const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t number = keep_function(p->fn, p->userData);
    return number ? command<Op::add_host_node>(node, graph, after, count, number) : CUDA_ERROR_OUT_OF_MEMORY;
}
CU cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* p) {
    std::uint64_t number = 0;
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = command<Op::host_node>(node, &number); r != CUDA_SUCCESS) return r;
    return kept_function(number, *p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CU cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t number = keep_function(p->fn, p->userData);
    return number ? command<Op::set_host_node>(node, number) : CUDA_ERROR_OUT_OF_MEMORY;
}
CU cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
    if (!p || !p->fn) return CUDA_ERROR_INVALID_VALUE;
    const std::uint64_t number = keep_function(p->fn, p->userData);
    return number ? command<Op::exec_set_host_node>(exec, node, number) : CUDA_ERROR_OUT_OF_MEMORY;
}

CU cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUevent event) {
    if (!event) return CUDA_ERROR_INVALID_VALUE;
    recorded_by_graph(event);
    return command<Op::cuGraphAddEventRecordNode>(node, graph, after, count, event);
}
CU cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
    recorded_by_graph(event);
    return command<Op::cuGraphEventRecordNodeSetEvent>(node, event);
}
CU cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
    recorded_by_graph(event);
    return command<Op::cuGraphExecEventRecordNodeSetEvent>(exec, node, event);
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
CUDA_BATCH_MEM_OP_NODE_PARAMS values_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& v) {
    return {v.ctx, v.count, v.paramArray, v.flags};
}

CUresult add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, size_t count, CUgraphNodeParams* p) {
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
        case CU_GRAPH_NODE_TYPE_GRAPH:
            if (p->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
                return command<Op::move_child_graph>(node, graph, after, count, p->graph.graph);
            return cuGraphAddChildGraphNode(node, graph, after, count, p->graph.graph);
        case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(node, graph, after, count);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return cuGraphAddEventWaitNode(node, graph, after, count, p->eventWait.event);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            return cuGraphAddEventRecordNode(node, graph, after, count, p->eventRecord.event);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
            CUDA_MEM_ALLOC_NODE_PARAMS_v1 a{p->alloc.poolProps, p->alloc.accessDescs, p->alloc.accessDescCount,
                                            p->alloc.bytesize, 0};
            const CUresult r = cuGraphAddMemAllocNode(node, graph, after, count, &a);
            p->alloc.dptr = a.dptr;
            return r;
        }
        case CU_GRAPH_NODE_TYPE_MEM_FREE: return cuGraphAddMemFreeNode(node, graph, after, count, p->free.dptr);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS v = values_of(p->memOp);
            return cuGraphAddBatchMemOpNode(node, graph, after, count, &v);
        }
        case CU_GRAPH_NODE_TYPE_CONDITIONAL: return add_conditional(node, graph, after, count, p->conditional);
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

bool is_plain(const CUgraphEdgeData& edge) { return !edge.from_port && !edge.to_port && !edge.type; }
}  // namespace

CU cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, const CUgraphEdgeData* edges,
                     size_t count, CUgraphNodeParams* p) {
    if (!node || !p || (count && !after)) return CUDA_ERROR_INVALID_VALUE;
    // Dependencies that carry data (programmatic ones) are added after the node: the commands of its kind take plain
    // ones.
    std::vector<CUgraphNode> plain, from;
    std::vector<CUgraphEdgeData> data;
    for (size_t i = 0; i < count; ++i)
        if (!edges || is_plain(edges[i])) plain.push_back(after[i]);
        else {
            from.push_back(after[i]);
            data.push_back(edges[i]);
        }
    if (CUresult r = add_node(node, graph, plain.data(), plain.size(), p); r != CUDA_SUCCESS || from.empty()) return r;
    const std::vector<CUgraphNode> to(from.size(), *node);
    const CUresult r = cuGraphAddDependencies(graph, from.data(), to.data(), data.data(), from.size());
    if (r != CUDA_SUCCESS) cuGraphDestroyNode(*node);
    return r;
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
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS v = values_of(p->memOp);
            return cuGraphBatchMemOpNodeSetParams(node, &v);
        }
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
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
            const CUDA_BATCH_MEM_OP_NODE_PARAMS v = values_of(p->memOp);
            return cuGraphExecBatchMemOpNodeSetParams(exec, node, &v);
        }
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}
