// SPDX-License-Identifier: Apache-2.0
// graph.cc: the manual's "Graph Management", except the parameters of nodes (graph_nodes.cc). Graphs, nodes and
// executable graphs are the driver's own.
#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

// ---- graphs --------------------------------------------------------------------------------------------------------
API cudaGraphCreate(cudaGraph_t* graph, unsigned flags) { return call(cuGraphCreate, graph, flags); }
API cudaGraphDestroy(cudaGraph_t graph) { return call(cuGraphDestroy, graph); }
API cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) { return call(cuGraphClone, clone, graph); }
API cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone) {
    return call(cuGraphNodeFindInClone, node, original, clone);
}
API cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
    return call(cuGraphDebugDotPrint, graph, path, flags);
}

API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return call(cuGraphGetNodes, graph, nodes, count);
}
API cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    return call(cuGraphGetRootNodes, graph, nodes, count);
}
API cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                      size_t* count) {
    return call(cuGraphGetEdges, graph, from, to, edges, count);
}
API cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                             const cudaGraphEdgeData* edges, size_t count) {
    return call(cuGraphAddDependencies, graph, from, to, edges, count);
}
API cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                const cudaGraphEdgeData* edges, size_t count) {
    return call(cuGraphRemoveDependencies, graph, from, to, edges, count);
}

// ---- nodes of every kind -------------------------------------------------------------------------------------------
static_assert(cudaGraphNodeTypeKernel == static_cast<int>(CU_GRAPH_NODE_TYPE_KERNEL) &&
              cudaGraphNodeTypeMemAlloc == static_cast<int>(CU_GRAPH_NODE_TYPE_MEM_ALLOC) &&
              cudaGraphNodeTypeMemFree == static_cast<int>(CU_GRAPH_NODE_TYPE_MEM_FREE) &&
              cudaGraphNodeTypeConditional == static_cast<int>(CU_GRAPH_NODE_TYPE_CONDITIONAL));

API cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) { return call(cuGraphNodeGetType, node, type); }
API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                 size_t* count) {
    return call(cuGraphNodeGetDependencies, node, nodes, edges, count);
}
API cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                   size_t* count) {
    return call(cuGraphNodeGetDependentNodes, node, nodes, edges, count);
}
API cudaGraphDestroyNode(cudaGraphNode_t node) { return call(cuGraphDestroyNode, node); }
API cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled) {
    return call(cuGraphNodeSetEnabled, exec, node, enabled);
}
API cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned* enabled) {
    return call(cuGraphNodeGetEnabled, exec, node, enabled);
}

API cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count) {
    return call(cuGraphAddEmptyNode, node, graph, after, count);
}
API cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                               cudaGraph_t child) {
    return call(cuGraphAddChildGraphNode, node, graph, after, count, child);
}
API cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
    return call(cuGraphChildGraphNodeGetGraph, node, child);
}
API cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child) {
    return call(cuGraphExecChildGraphNodeSetParams, exec, node, child);
}

API cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                                cudaEvent_t event) {
    return call(cuGraphAddEventRecordNode, node, graph, after, count, event);
}
API cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
    return call(cuGraphEventRecordNodeGetEvent, node, event);
}
API cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    return call(cuGraphEventRecordNodeSetEvent, node, event);
}
API cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
    return call(cuGraphExecEventRecordNodeSetEvent, exec, node, event);
}
API cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                              cudaEvent_t event) {
    return call(cuGraphAddEventWaitNode, node, graph, after, count, event);
}
API cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
    return call(cuGraphEventWaitNodeGetEvent, node, event);
}
API cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    return call(cuGraphEventWaitNodeSetEvent, node, event);
}
API cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event) {
    return call(cuGraphExecEventWaitNodeSetEvent, exec, node, event);
}

API cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                         const cudaHostNodeParams* parameters) {
    return call(cuGraphAddHostNode, node, graph, after, count, parameters);
}
API cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* parameters) {
    return call(cuGraphHostNodeGetParams, node, parameters);
}
API cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
    return call(cuGraphHostNodeSetParams, node, parameters);
}
API cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
    return call(cuGraphExecHostNodeSetParams, exec, node, parameters);
}

// ---- memory nodes --------------------------------------------------------------------------------------------------
API cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                             cudaMemAllocNodeParams* parameters) {
    return call(cuGraphAddMemAllocNode, node, graph, after, count, parameters);
}
API cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
    return call(cuGraphMemAllocNodeGetParams, node, parameters);
}
API cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
                            void* memory) {
    return call(cuGraphAddMemFreeNode, node, graph, after, count, memory);
}
API cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* memory) {
    return call(cuGraphMemFreeNodeGetParams, node, static_cast<CUdeviceptr*>(memory));
}
API cudaDeviceGraphMemTrim(int device) { return call(cuDeviceGraphMemTrim, device); }
API cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
    return call(cuDeviceGetGraphMemAttribute, device, attribute, value);
}
API cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
    return call(cuDeviceSetGraphMemAttribute, device, attribute, value);
}

// ---- executable graphs ---------------------------------------------------------------------------------------------
API cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    return call(cuGraphInstantiateWithFlags, exec, graph, flags);
}
API cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
API cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
    if (!parameters) return record(cudaErrorInvalidValue);
    CUDA_GRAPH_INSTANTIATE_PARAMS its = {};
    its.flags = parameters->flags;
    its.hUploadStream = parameters->uploadStream;
    cudaError_t error = call(cuGraphInstantiateWithParams, exec, graph, &its);
    parameters->errNode_out = its.hErrNode_out;
    parameters->result_out = static_cast<cudaGraphInstantiateResult>(its.result_out);
    return error;
}
API cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
    return call(cuGraphExecGetFlags, exec, flags);
}
API cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
    CUgraphExecUpdateResultInfo its = {};
    cudaError_t error = call(cuGraphExecUpdate, exec, graph, &its);
    if (info) {
        info->result = static_cast<cudaGraphExecUpdateResult>(its.result);
        info->errorNode = its.errorNode;
        info->errorFromNode = its.errorFromNode;
    }
    return error;
}
API cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) { return call(cuGraphUpload, exec, stream); }
API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return call(cuGraphLaunch, exec, stream); }
API cudaGraphExecDestroy(cudaGraphExec_t exec) { return call(cuGraphExecDestroy, exec); }

// ---- objects that live as long as a graph --------------------------------------------------------------------------
API cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy, unsigned count, unsigned flags) {
    return call(cuUserObjectCreate, object, data, destroy, count, flags);
}
API cudaUserObjectRetain(cudaUserObject_t object, unsigned count) { return call(cuUserObjectRetain, object, count); }
API cudaUserObjectRelease(cudaUserObject_t object, unsigned count) { return call(cuUserObjectRelease, object, count); }
API cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
    return call(cuGraphRetainUserObject, graph, object, count, flags);
}
API cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
    return call(cuGraphReleaseUserObject, graph, object, count);
}
