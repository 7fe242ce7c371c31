// SPDX-License-Identifier: Apache-2.0
// external.cc: memory and semaphores of other interfaces (Vulkan, Direct3D, NvSci) by handle. A guest has no host
// handles to give, so its driver refuses these; with a driver on the same machine they work.
#include "guest-allocator/runtime/array.h"

using namespace barcuda::runtime;

API cudaImportExternalMemory(cudaExternalMemory_t* memory, const cudaExternalMemoryHandleDesc* handle) {
    return call(cuImportExternalMemory, memory, handle);
}
API cudaDestroyExternalMemory(cudaExternalMemory_t memory) { return call(cuDestroyExternalMemory, memory); }

API cudaExternalMemoryGetMappedBuffer(void** address, cudaExternalMemory_t memory,
                                      const cudaExternalMemoryBufferDesc* desc) {
    if (!desc) return record(cudaErrorInvalidValue);
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC its = {};
    its.offset = desc->offset;
    its.size = desc->size;
    its.flags = desc->flags;
    return call(cuExternalMemoryGetMappedBuffer, address, memory, &its);
}

API cudaExternalMemoryGetMappedMipmappedArray(cudaMipmappedArray_t* array, cudaExternalMemory_t memory,
                                              const cudaExternalMemoryMipmappedArrayDesc* desc) {
    if (!desc) return record(cudaErrorInvalidValue);
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC its = {};
    its.offset = desc->offset;
    its.numLevels = desc->numLevels;
    auto& level = its.arrayDesc;
    level.Width = desc->extent.width;
    level.Height = desc->extent.height;
    level.Depth = desc->extent.depth;
    level.Flags = desc->flags;
    if (cudaError_t error = element_of(desc->formatDesc, &level.Format, &level.NumChannels)) return record(error);
    return call(cuExternalMemoryGetMappedMipmappedArray, array, memory, &its);
}

API cudaImportExternalSemaphore(cudaExternalSemaphore_t* semaphore, const cudaExternalSemaphoreHandleDesc* handle) {
    return call(cuImportExternalSemaphore, semaphore, handle);
}
API cudaDestroyExternalSemaphore(cudaExternalSemaphore_t semaphore) {
    return call(cuDestroyExternalSemaphore, semaphore);
}
API cudaSignalExternalSemaphoresAsync(const cudaExternalSemaphore_t* semaphores,
                                      const cudaExternalSemaphoreSignalParams* parameters, unsigned count,
                                      cudaStream_t stream) {
    return call(cuSignalExternalSemaphoresAsync, semaphores, parameters, count, stream);
}
API cudaWaitExternalSemaphoresAsync(const cudaExternalSemaphore_t* semaphores,
                                    const cudaExternalSemaphoreWaitParams* parameters, unsigned count,
                                    cudaStream_t stream) {
    return call(cuWaitExternalSemaphoresAsync, semaphores, parameters, count, stream);
}

// ---- their nodes in graphs -----------------------------------------------------------------------------------------
API cudaGraphAddExternalSemaphoresSignalNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                             size_t count, const cudaExternalSemaphoreSignalNodeParams* parameters) {
    return call(cuGraphAddExternalSemaphoresSignalNode, node, graph, after, count, parameters);
}
API cudaGraphExternalSemaphoresSignalNodeGetParams(cudaGraphNode_t node,
                                                   cudaExternalSemaphoreSignalNodeParams* parameters) {
    return call(cuGraphExternalSemaphoresSignalNodeGetParams, node, parameters);
}
API cudaGraphExternalSemaphoresSignalNodeSetParams(cudaGraphNode_t node,
                                                   const cudaExternalSemaphoreSignalNodeParams* parameters) {
    return call(cuGraphExternalSemaphoresSignalNodeSetParams, node, parameters);
}
API cudaGraphExecExternalSemaphoresSignalNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                       const cudaExternalSemaphoreSignalNodeParams* parameters) {
    return call(cuGraphExecExternalSemaphoresSignalNodeSetParams, exec, node, parameters);
}
API cudaGraphAddExternalSemaphoresWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                           size_t count, const cudaExternalSemaphoreWaitNodeParams* parameters) {
    return call(cuGraphAddExternalSemaphoresWaitNode, node, graph, after, count, parameters);
}
API cudaGraphExternalSemaphoresWaitNodeGetParams(cudaGraphNode_t node,
                                                 cudaExternalSemaphoreWaitNodeParams* parameters) {
    return call(cuGraphExternalSemaphoresWaitNodeGetParams, node, parameters);
}
API cudaGraphExternalSemaphoresWaitNodeSetParams(cudaGraphNode_t node,
                                                 const cudaExternalSemaphoreWaitNodeParams* parameters) {
    return call(cuGraphExternalSemaphoresWaitNodeSetParams, node, parameters);
}
API cudaGraphExecExternalSemaphoresWaitNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                     const cudaExternalSemaphoreWaitNodeParams* parameters) {
    return call(cuGraphExecExternalSemaphoresWaitNodeSetParams, exec, node, parameters);
}
