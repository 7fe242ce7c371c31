// SPDX-License-Identifier: Apache-2.0
// stream.cc: the manual's "Stream Management". Runtime streams are driver streams; so are the two special ones
// (cudaStreamLegacy, cudaStreamPerThread), and the null stream is the legacy one here. per_thread.cc holds the
// functions for which it is the thread's own.
#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

static_assert(cudaStreamNonBlocking == static_cast<int>(CU_STREAM_NON_BLOCKING));

API cudaStreamCreate(cudaStream_t* stream) { return call(cuStreamCreate, stream, CU_STREAM_DEFAULT); }
API cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return call(cuStreamCreate, stream, flags); }
API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    return call(cuStreamCreateWithPriority, stream, flags, priority);
}
API cudaStreamDestroy(cudaStream_t stream) { return call(cuStreamDestroy, stream); }

API cudaStreamSynchronize(cudaStream_t stream) { return call(cuStreamSynchronize, stream); }
API cudaStreamQuery(cudaStream_t stream) { return call(cuStreamQuery, stream); }
API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return call(cuStreamWaitEvent, stream, event, flags);
}
API cudaStreamAttachMemAsync(cudaStream_t stream, void* memory, size_t length, unsigned flags) {
    return call(cuStreamAttachMemAsync, stream, memory, length, flags);
}

// The runtime's callback takes a cudaError_t where the driver's takes a CUresult: the same values in the same place.
API cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
    return call(cuStreamAddCallback, stream, reinterpret_cast<CUstreamCallback>(callback), data, flags);
}

// ---- what a stream is ----------------------------------------------------------------------------------------------
API cudaStreamGetPriority(cudaStream_t stream, int* priority) { return call(cuStreamGetPriority, stream, priority); }
API cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) { return call(cuStreamGetFlags, stream, flags); }
API cudaStreamGetId(cudaStream_t stream, unsigned long long* id) { return call(cuStreamGetId, stream, id); }
API cudaStreamGetDevice(cudaStream_t stream, int* device) { return call(cuStreamGetDevice, stream, device); }
API cudaStreamCopyAttributes(cudaStream_t target, cudaStream_t source) {
    return call(cuStreamCopyAttributes, target, source);
}
API cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value) {
    return call(cuStreamGetAttribute, stream, attribute, value);
}
API cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                           const cudaLaunchAttributeValue* value) {
    return call(cuStreamSetAttribute, stream, attribute, value);
}

// ---- capture -------------------------------------------------------------------------------------------------------
API cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return call(cuStreamBeginCapture, stream, mode);
}
API cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes,
                                  const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
    return call(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode);
}
API cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) { return call(cuStreamEndCapture, stream, graph); }
API cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return call(cuStreamIsCapturing, stream, status);
}
API cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                             cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                             size_t* count) {
    // The cast is of a pointer to a pointer, which `as` does not look through; CUgraphEdgeData is checked there.
    auto driver_edges = reinterpret_cast<const CUgraphEdgeData**>(edges);
    return call(cuStreamGetCaptureInfo, stream, reinterpret_cast<CUstreamCaptureStatus*>(status), id, graph, nodes,
                driver_edges, count);
}
API cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                        size_t count, unsigned flags) {
    return call(cuStreamUpdateCaptureDependencies, stream, nodes, edges, count, flags);
}
API cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return call(cuThreadExchangeStreamCaptureMode, mode);
}
