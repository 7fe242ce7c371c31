// SPDX-License-Identifier: Apache-2.0
// graph_nodes.cc: what is inside kernel, copy and fill nodes: the runtime names kernels and variables by host
// addresses, counts copies in elements, and leaves out the context, which is the current one.
#include <cstring>

#include "guest-allocator/runtime/box.h"
#include "guest-allocator/runtime/registry.h"

using namespace barcuda::runtime;

namespace {

CUcontext context() {
    CUcontext current = nullptr;
    cuCtxGetCurrent(&current);
    return current;
}

// ---- translation ---------------------------------------------------------------------------------------------------
// Runtime is cudaKernelNodeParams or its V2, Driver the driver's second or third version: the members' names agree.
template <class Driver, class Runtime> cudaError_t kernel(const Runtime& from, Driver* to) {
    if (CUresult result = ready()) return translate(result);
    *to = {};
    if (cudaError_t error = function_of(from.func, &to->func)) return error;
    to->gridDimX = from.gridDim.x;
    to->gridDimY = from.gridDim.y;
    to->gridDimZ = from.gridDim.z;
    to->blockDimX = from.blockDim.x;
    to->blockDimY = from.blockDim.y;
    to->blockDimZ = from.blockDim.z;
    to->sharedMemBytes = from.sharedMemBytes;
    to->kernelParams = from.kernelParams;
    to->extra = from.extra;
    return cudaSuccess;
}

// A copy of `count` bytes as a box of one row.
cudaError_t linear(void* to, const void* from, std::size_t count, cudaMemcpyKind kind, CUDA_MEMCPY3D* copy) {
    cudaMemcpy3DParms box = {};
    box.srcPtr = {const_cast<void*>(from), count, count, 1};
    box.dstPtr = {to, count, count, 1};
    box.extent = {count, 1, 1};
    box.kind = kind;
    return driver_copy(box, copy);
}

cudaError_t symbol_address(const void* symbol, std::size_t count, std::size_t offset, void** address) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    if (cudaError_t error = address_of(symbol, &base, &size)) return error;
    if (offset > size || count > size - offset) return cudaErrorInvalidValue;
    *address = reinterpret_cast<void*>(base + offset);
    return cudaSuccess;
}
cudaError_t to_symbol(const void* symbol, const void* from, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                      CUDA_MEMCPY3D* copy) {
    void* to = nullptr;
    cudaError_t error = symbol_address(symbol, count, offset, &to);
    return error ? error : linear(to, from, count, kind, copy);
}
cudaError_t from_symbol(void* to, const void* symbol, std::size_t count, std::size_t offset, cudaMemcpyKind kind,
                        CUDA_MEMCPY3D* copy) {
    void* from = nullptr;
    cudaError_t error = symbol_address(symbol, count, offset, &from);
    return error ? error : linear(to, from, count, kind, copy);
}

// ---- what is done with a translated copy ---------------------------------------------------------------------------
struct NodePlace {
    cudaGraphNode_t* node;
    cudaGraph_t graph;
    const cudaGraphNode_t* after;
    std::size_t count;
};
cudaError_t add(NodePlace place, cudaError_t error, const CUDA_MEMCPY3D& copy) {
    return error ? record(error)
                 : call(cuGraphAddMemcpyNode, place.node, place.graph, place.after, place.count, &copy, context());
}
cudaError_t set(cudaGraphNode_t node, cudaError_t error, const CUDA_MEMCPY3D& copy) {
    return error ? record(error) : call(cuGraphMemcpyNodeSetParams, node, &copy);
}
cudaError_t set(cudaGraphExec_t exec, cudaGraphNode_t node, cudaError_t error, const CUDA_MEMCPY3D& copy) {
    return error ? record(error) : call(cuGraphExecMemcpyNodeSetParams, exec, node, &copy, context());
}

}  // namespace

// ---- kernel nodes --------------------------------------------------------------------------------------------------
API cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                           const cudaKernelNodeParams* parameters) {
    CUDA_KERNEL_NODE_PARAMS its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = kernel(*parameters, &its)) return record(error);
    return call(cuGraphAddKernelNode, node, graph, after, count, &its);
}
API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
    CUDA_KERNEL_NODE_PARAMS its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = kernel(*parameters, &its)) return record(error);
    return call(cuGraphKernelNodeSetParams, node, &its);
}
API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                     const cudaKernelNodeParams* parameters) {
    CUDA_KERNEL_NODE_PARAMS its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = kernel(*parameters, &its)) return record(error);
    return call(cuGraphExecKernelNodeSetParams, exec, node, &its);
}
API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
    CUDA_KERNEL_NODE_PARAMS its = {};
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = call(cuGraphKernelNodeGetParams, node, &its)) return error;
    const void* symbol = symbol_of(its.func, its.kern);
    if (!symbol) return record(cudaErrorInvalidDeviceFunction);  // of a module that the driver API loaded
    parameters->func = const_cast<void*>(symbol);
    parameters->gridDim = {its.gridDimX, its.gridDimY, its.gridDimZ};
    parameters->blockDim = {its.blockDimX, its.blockDimY, its.blockDimZ};
    parameters->sharedMemBytes = its.sharedMemBytes;
    parameters->kernelParams = its.kernelParams;
    parameters->extra = its.extra;
    return cudaSuccess;
}
API cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
    return call(cuGraphKernelNodeCopyAttributes, to, from);
}
API cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                    cudaLaunchAttributeValue* value) {
    return call(cuGraphKernelNodeGetAttribute, node, attribute, value);
}
API cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                    const cudaLaunchAttributeValue* value) {
    return call(cuGraphKernelNodeSetAttribute, node, attribute, value);
}

// ---- copy nodes ----------------------------------------------------------------------------------------------------
API cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                           const cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    cudaError_t error = driver_copy(*parameters, &copy);
    return add({node, graph, after, count}, error, copy);
}
API cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                             void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = linear(to, from, bytes, kind, &copy);
    return add({node, graph, after, count}, error, copy);
}
API cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                   const void* symbol, const void* from, size_t bytes, size_t offset,
                                   cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_symbol(symbol, from, bytes, offset, kind, &copy);
    return add({node, graph, after, count}, error, copy);
}
API cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                     size_t count, void* to, const void* symbol, size_t bytes, size_t offset,
                                     cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = from_symbol(to, symbol, bytes, offset, kind, &copy);
    return add({node, graph, after, count}, error, copy);
}

API cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy = {};
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = call(cuGraphMemcpyNodeGetParams, node, &copy)) return error;
    return record(runtime_copy(copy, parameters));
}
API cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    cudaError_t error = driver_copy(*parameters, &copy);
    return set(node, error, copy);
}
API cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                   cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = linear(to, from, bytes, kind, &copy);
    return set(node, error, copy);
}
API cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes,
                                         size_t offset, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_symbol(symbol, from, bytes, offset, kind, &copy);
    return set(node, error, copy);
}
API cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                                           size_t offset, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = from_symbol(to, symbol, bytes, offset, kind, &copy);
    return set(node, error, copy);
}

API cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
    CUDA_MEMCPY3D copy;
    if (!parameters) return record(cudaErrorInvalidValue);
    cudaError_t error = driver_copy(*parameters, &copy);
    return set(exec, node, error, copy);
}
API cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                                       size_t bytes, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = linear(to, from, bytes, kind, &copy);
    return set(exec, node, error, copy);
}
API cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol,
                                             const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = to_symbol(symbol, from, bytes, offset, kind, &copy);
    return set(exec, node, error, copy);
}
API cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* symbol,
                                               size_t bytes, size_t offset, cudaMemcpyKind kind) {
    CUDA_MEMCPY3D copy;
    cudaError_t error = from_symbol(to, symbol, bytes, offset, kind, &copy);
    return set(exec, node, error, copy);
}

// ---- fill nodes ----------------------------------------------------------------------------------------------------
API cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                           const cudaMemsetParams* parameters) {
    if (CUresult result = ready()) return record(result);
    return call(cuGraphAddMemsetNode, node, graph, after, count, parameters, context());
}
API cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* parameters) {
    return call(cuGraphMemsetNodeGetParams, node, parameters);
}
API cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
    return call(cuGraphMemsetNodeSetParams, node, parameters);
}
API cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* parameters) {
    if (CUresult result = ready()) return record(result);
    return call(cuGraphExecMemsetNodeSetParams, exec, node, parameters, context());
}

// ---- nodes of any kind by one structure ----------------------------------------------------------------------------
namespace {

// The kinds that are not listed are the same bytes on both sides; two of them may also end with the driver's context.
cudaError_t node_parameters(const cudaGraphNodeParams& from, CUgraphNodeParams* to) {
    static_assert(sizeof(from) == sizeof(*to));
    if (CUresult result = ready()) return translate(result);
    std::memcpy(to, &from, sizeof(from));
    switch (from.type) {
        case cudaGraphNodeTypeKernel: return kernel(from.kernel, &to->kernel);
        case cudaGraphNodeTypeMemcpy:
            to->memcpy = {};
            to->memcpy.flags = from.memcpy.flags;
            to->memcpy.copyCtx = context();
            return driver_copy(from.memcpy.copyParams, &to->memcpy.copyParams);
        case cudaGraphNodeTypeMemset: to->memset.ctx = context(); return cudaSuccess;
        case cudaGraphNodeTypeConditional: to->conditional.ctx = context(); return cudaSuccess;
        default: return cudaSuccess;
    }
}

// What the driver answers in the structure.
void node_answers(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
    if (to->type == cudaGraphNodeTypeMemAlloc) to->alloc.dptr = reinterpret_cast<void*>(from.alloc.dptr);
    if (to->type == cudaGraphNodeTypeConditional) to->conditional.phGraph_out = from.conditional.phGraph_out;
}

}  // namespace

API cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                     const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* parameters) {
    CUgraphNodeParams its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = node_parameters(*parameters, &its)) return record(error);
    cudaError_t error = call(cuGraphAddNode, node, graph, after, edges, count, &its);
    if (!error) node_answers(its, parameters);
    return error;
}
API cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* parameters) {
    CUgraphNodeParams its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = node_parameters(*parameters, &its)) return record(error);
    return call(cuGraphNodeSetParams, node, &its);
}
API cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeParams* parameters) {
    CUgraphNodeParams its;
    if (!parameters) return record(cudaErrorInvalidValue);
    if (cudaError_t error = node_parameters(*parameters, &its)) return record(error);
    return call(cuGraphExecNodeSetParams, exec, node, &its);
}
API cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned value,
                                     unsigned flags) {
    if (CUresult result = ready()) return record(result);
    return call(cuGraphConditionalHandleCreate, reinterpret_cast<CUgraphConditionalHandle*>(handle), graph, context(),
                value, flags);
}
