// SPDX-License-Identifier: Apache-2.0
// graph.cc: nodes of graphs that cannot travel in CUDA's form: kernels travel with packed parameters, functions of the
// program as numbers. (The guest's half: guest-allocator/driver/graph.cc and graph_node.cc.)
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "host-bridge/worker/bodies/attributes.h"
#include "host-bridge/worker/bodies/body.h"
#include "host-bridge/worker/session/launch.h"

namespace barcuda::ext {
namespace {
CUDA_BATCH_MEM_OP_NODE_PARAMS values_of(CUcontext context, const CUstreamBatchMemOpParams* operations, unsigned count,
                                        unsigned flags) {
    return {context, count, const_cast<CUstreamBatchMemOpParams*>(operations), flags};  // the driver only reads them
}
}  // namespace

CUresult add_kernel_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUfunction function, Shape shape, const void* parameters, std::size_t bytes) {
    Packed packed(parameters, bytes);
    const CUDA_KERNEL_NODE_PARAMS p = node_of(function, shape, packed);
    if (CUresult r = driver().cuGraphAddKernelNode_v2(node, graph, after, count, &p); r != CUDA_SUCCESS) return r;
    if (!shape.cooperative) return CUDA_SUCCESS;
    CUlaunchAttributeValue cooperative{};
    cooperative.cooperative = 1;
    return driver().cuGraphKernelNodeSetAttribute(*node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
}
CUresult set_kernel_node(CUgraphNode node, CUfunction function, Shape shape, const void* parameters,
                         std::size_t bytes) {
    Packed packed(parameters, bytes);
    const CUDA_KERNEL_NODE_PARAMS p = node_of(function, shape, packed);
    return driver().cuGraphKernelNodeSetParams_v2(node, &p);
}
CUresult exec_set_kernel_node(CUgraphExec exec, CUgraphNode node, CUfunction function, Shape shape,
                              const void* parameters, std::size_t bytes) {
    Packed packed(parameters, bytes);
    const CUDA_KERNEL_NODE_PARAMS p = node_of(function, shape, packed);
    return driver().cuGraphExecKernelNodeSetParams_v2(exec, node, &p);
}

CUresult kernel_node(CUgraphNode node, CUfunction* function, Shape* shape, void* packed, std::size_t room) {
    CUDA_KERNEL_NODE_PARAMS p{};
    if (CUresult r = driver().cuGraphKernelNodeGetParams_v2(node, &p); r != CUDA_SUCCESS) return r;
    *function = p.func;
    if (!p.func)
        if (CUresult r = driver().cuKernelGetFunction(function, p.kern); r != CUDA_SUCCESS) return r;
    *shape = {.grid = {p.gridDimX, p.gridDimY, p.gridDimZ},
              .block = {p.blockDimX, p.blockDimY, p.blockDimZ},
              .shared_bytes = p.sharedMemBytes};
    const void* buffer = nullptr;
    for (void** e = p.extra; e && *e != CU_LAUNCH_PARAM_END; e += 2)
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = e[1];
    for (std::size_t i = 0;; ++i) {
        std::size_t offset = 0, size = 0;
        if (driver().cuFuncGetParamInfo(*function, i, &offset, &size) != CUDA_SUCCESS) return CUDA_SUCCESS;
        const void* from = p.kernelParams ? p.kernelParams[i]
                           : buffer       ? static_cast<const char*>(buffer) + offset
                                          : nullptr;
        if (!from || offset + size > room) return CUDA_ERROR_NOT_SUPPORTED;
        std::memcpy(static_cast<char*>(packed) + offset, from, size);
    }
}

CUresult move_child_graph(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                          CUgraph child) {
    int version = 0;
    driver().cuDriverGetVersion(&version);
    if (!driver().cuGraphAddNode_v2 || version < 12090) return CUDA_ERROR_NOT_SUPPORTED;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
    session().addresses().graph_gone(child);
    return driver().cuGraphAddNode_v2(node, graph, after, nullptr, count, &p);
}

CUresult add_host_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                       std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, Calls::as_data(function)};
    return driver().cuGraphAddHostNode(node, graph, after, count, &p);
}
CUresult set_host_node(CUgraphNode node, std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, Calls::as_data(function)};
    return driver().cuGraphHostNodeSetParams(node, &p);
}
CUresult exec_set_host_node(CUgraphExec exec, CUgraphNode node, std::uint64_t function) {
    const CUDA_HOST_NODE_PARAMS p{&Calls::run, Calls::as_data(function)};
    return driver().cuGraphExecHostNodeSetParams(exec, node, &p);
}
CUresult host_node(CUgraphNode node, std::uint64_t* function) {
    CUDA_HOST_NODE_PARAMS p{};
    const CUresult r = driver().cuGraphHostNodeGetParams(node, &p);
    if (r == CUDA_SUCCESS) *function = reinterpret_cast<std::uint64_t>(p.userData);
    return r;
}

// The driver writes to a file of the worker. Handles in it would be the driver's, which mean nothing to the client.
CUresult graph_text(CUgraph graph, unsigned flags, std::uint64_t from, char* text, std::size_t room,
                    std::uint64_t* all) {
    if (!driver().cuGraphDebugDotPrint) return CUDA_ERROR_NOT_SUPPORTED;
    const int file = memfd_create("barcuda-graph", MFD_CLOEXEC);
    if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    CUresult r = driver().cuGraphDebugDotPrint(graph, path.c_str(), flags & ~CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES);
    struct stat written {};
    if (r == CUDA_SUCCESS && (fstat(file, &written) || pread(file, text, room, static_cast<off_t>(from)) < 0))
        r = CUDA_ERROR_OPERATING_SYSTEM;
    *all = static_cast<std::uint64_t>(written.st_size);
    close(file);
    return r;
}

CUresult add_values_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                         CUcontext context, const CUstreamBatchMemOpParams* operations, unsigned operation_count,
                         unsigned flags) {
    if (!driver().cuGraphAddBatchMemOpNode) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS p = values_of(context, operations, operation_count, flags);
    return driver().cuGraphAddBatchMemOpNode(node, graph, after, count, &p);
}
CUresult set_values_node(CUgraphNode node, CUcontext context, const CUstreamBatchMemOpParams* operations,
                         unsigned count, unsigned flags) {
    if (!driver().cuGraphBatchMemOpNodeSetParams) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS p = values_of(context, operations, count, flags);
    return driver().cuGraphBatchMemOpNodeSetParams(node, &p);
}
CUresult exec_set_values_node(CUgraphExec exec, CUgraphNode node, CUcontext context,
                              const CUstreamBatchMemOpParams* operations, unsigned count, unsigned flags) {
    if (!driver().cuGraphExecBatchMemOpNodeSetParams) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS p = values_of(context, operations, count, flags);
    return driver().cuGraphExecBatchMemOpNodeSetParams(exec, node, &p);
}
CUresult values_node(CUgraphNode node, CUcontext* context, CUstreamBatchMemOpParams* operations, unsigned* count,
                     unsigned* flags) {
    CUDA_BATCH_MEM_OP_NODE_PARAMS p{};
    if (!driver().cuGraphBatchMemOpNodeGetParams) return CUDA_ERROR_NOT_SUPPORTED;
    if (CUresult r = driver().cuGraphBatchMemOpNodeGetParams(node, &p); r != CUDA_SUCCESS) return r;
    if (operations) std::copy_n(p.paramArray, std::min(*count, p.count), operations);
    *context = p.ctx;
    *count = p.count;
    *flags = p.flags;
    return CUDA_SUCCESS;
}

CUresult add_conditional_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                              CUgraphConditionalHandle condition, CUgraphConditionalNodeType type, CUcontext context,
                              CUgraph* branches, unsigned branch_count) {
    if (!driver().cuGraphAddNode_v2) return CUDA_ERROR_NOT_SUPPORTED;
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional = {condition, type, branch_count, nullptr, context};
    if (CUresult r = driver().cuGraphAddNode_v2(node, graph, after, nullptr, count, &p); r != CUDA_SUCCESS) return r;
    if (!p.conditional.phGraph_out) return CUDA_ERROR_UNKNOWN;
    std::copy_n(p.conditional.phGraph_out, branch_count, branches);
    return CUDA_SUCCESS;
}

CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* why, CUresult* verdict) {
    CUgraphExecUpdateResultInfo its{};
    *verdict = driver().cuGraphExecUpdate_v2(exec, graph, &its);
    // One by one: a driver may assign a struct of its stack, whose padding tells of the host and is another each time.
    why->result = its.result;
    why->errorNode = its.errorNode;
    why->errorFromNode = its.errorFromNode;
    return CUDA_SUCCESS;
}

}  // namespace barcuda::ext

namespace barcuda::body {
BODY(cuGraphAddMemAllocNode)
(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* memory) {
    memory->dptr = 0;
    const CUresult r = driver().cuGraphAddMemAllocNode(node, graph, after, count, memory);
    if (r == CUDA_SUCCESS) session().addresses().promise(memory->dptr, memory->bytesize, graph);
    return r;
}
BODY(cuGraphKernelNodeGetAttribute)(CUgraphNode node, CUlaunchAttributeID id, CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, nullptr); r != CUDA_SUCCESS) return r;
    return driver().cuGraphKernelNodeGetAttribute(node, id, value);
}
BODY(cuGraphKernelNodeSetAttribute)(CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (CUresult r = admitted(id, value); r != CUDA_SUCCESS) return r;
    return driver().cuGraphKernelNodeSetAttribute(node, id, value);
}

}  // namespace barcuda::body
