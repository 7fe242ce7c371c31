// SPDX-License-Identifier: Apache-2.0
// per_thread.cc: the twins of programs compiled with `--default-stream per-thread`.
//
// nvcc then renames every function with a default stream: NAME_ptsz takes a null stream for the calling thread's own
// stream, NAME_ptds works in it. Each is one row here, made of its plain twin: a _ptsz row replaces a null stream, a
// _ptds row is the asynchronous twin in the thread's stream, followed by a wait.
#include "guest-allocator/runtime/runtime.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // old programs call them, so they have their twins

using namespace barcuda::runtime;

namespace {
cudaStream_t own(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }
}  // namespace

// The prototypes are those of the twins; the names have no declaration of their own to be checked against.
#define PTSZ(name, parameters, ...) \
    API name##_ptsz parameters { return name(__VA_ARGS__); }
#define PTDS(name, twin, parameters, ...)                                  \
    API name##_ptds parameters {                                           \
        cudaError_t error = twin(__VA_ARGS__, cudaStreamPerThread);        \
        return error ? error : cudaStreamSynchronize(cudaStreamPerThread); \
    }

// clang-format off
// ---- launches ------------------------------------------------------------------------------------------------------
PTSZ(cudaLaunchKernel, (const void* f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f, g, b, a, n, own(s))
PTSZ(cudaLaunchCooperativeKernel, (const void* f, dim3 g, dim3 b, void** a, size_t n, cudaStream_t s), f, g, b, a, n, own(s))
PTSZ(cudaLaunchHostFunc, (cudaStream_t s, cudaHostFn_t f, void* d), own(s), f, d)
API cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
    if (!config) return record(cudaErrorInvalidValue);
    cudaLaunchConfig_t its = *config;
    its.stream = own(config->stream);
    return cudaLaunchKernelExC(&its, function, arguments);
}

// ---- streams and events --------------------------------------------------------------------------------------------
PTSZ(cudaStreamSynchronize, (cudaStream_t s), own(s))
PTSZ(cudaStreamQuery, (cudaStream_t s), own(s))
PTSZ(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned f), own(s), e, f)
PTSZ(cudaStreamAddCallback, (cudaStream_t s, cudaStreamCallback_t c, void* d, unsigned f), own(s), c, d, f)
PTSZ(cudaStreamAttachMemAsync, (cudaStream_t s, void* p, size_t n, unsigned f), own(s), p, n, f)
PTSZ(cudaStreamGetPriority, (cudaStream_t s, int* p), own(s), p)
PTSZ(cudaStreamGetFlags, (cudaStream_t s, unsigned* f), own(s), f)
PTSZ(cudaStreamGetId, (cudaStream_t s, unsigned long long* i), own(s), i)
PTSZ(cudaStreamGetDevice, (cudaStream_t s, int* d), own(s), d)
PTSZ(cudaStreamCopyAttributes, (cudaStream_t t, cudaStream_t s), own(t), own(s))
PTSZ(cudaStreamGetAttribute, (cudaStream_t s, cudaLaunchAttributeID a, cudaLaunchAttributeValue* v), own(s), a, v)
PTSZ(cudaStreamSetAttribute, (cudaStream_t s, cudaLaunchAttributeID a, const cudaLaunchAttributeValue* v), own(s), a, v)
PTSZ(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), e, own(s))
PTSZ(cudaEventRecordWithFlags, (cudaEvent_t e, cudaStream_t s, unsigned f), e, own(s), f)

// ---- capture and graphs --------------------------------------------------------------------------------------------
PTSZ(cudaStreamBeginCapture, (cudaStream_t s, cudaStreamCaptureMode m), own(s), m)
PTSZ(cudaStreamBeginCaptureToGraph, (cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t* d, const cudaGraphEdgeData* e, size_t n, cudaStreamCaptureMode m), own(s), g, d, e, n, m)
PTSZ(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t* g), own(s), g)
PTSZ(cudaStreamIsCapturing, (cudaStream_t s, cudaStreamCaptureStatus* c), own(s), c)
PTSZ(cudaStreamGetCaptureInfo, (cudaStream_t s, cudaStreamCaptureStatus* c, unsigned long long* i, cudaGraph_t* g, const cudaGraphNode_t** d, const cudaGraphEdgeData** e, size_t* n), own(s), c, i, g, d, e, n)
PTSZ(cudaStreamUpdateCaptureDependencies, (cudaStream_t s, cudaGraphNode_t* d, const cudaGraphEdgeData* e, size_t n, unsigned f), own(s), d, e, n, f)
PTSZ(cudaGraphLaunch, (cudaGraphExec_t g, cudaStream_t s), g, own(s))
PTSZ(cudaGraphUpload, (cudaGraphExec_t g, cudaStream_t s), g, own(s))
API cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t* exec, cudaGraph_t graph,
                                        cudaGraphInstantiateParams* parameters) {
    if (!parameters) return record(cudaErrorInvalidValue);
    cudaGraphInstantiateParams its = *parameters;
    its.uploadStream = own(parameters->uploadStream);
    cudaError_t error = cudaGraphInstantiateWithParams(exec, graph, &its);
    parameters->errNode_out = its.errNode_out;
    parameters->result_out = its.result_out;
    return error;
}

// ---- copies --------------------------------------------------------------------------------------------------------
PTSZ(cudaMemcpyAsync, (void* t, const void* f, size_t n, cudaMemcpyKind k, cudaStream_t s), t, f, n, k, own(s))
PTSZ(cudaMemcpyToSymbolAsync, (const void* t, const void* f, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t s), t, f, n, o, k, own(s))
PTSZ(cudaMemcpyFromSymbolAsync, (void* t, const void* f, size_t n, size_t o, cudaMemcpyKind k, cudaStream_t s), t, f, n, o, k, own(s))
PTSZ(cudaMemcpy2DAsync, (void* t, size_t tp, const void* f, size_t fp, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t s), t, tp, f, fp, w, h, k, own(s))
PTSZ(cudaMemcpyToArrayAsync, (cudaArray_t t, size_t x, size_t y, const void* f, size_t n, cudaMemcpyKind k, cudaStream_t s), t, x, y, f, n, k, own(s))
PTSZ(cudaMemcpyFromArrayAsync, (void* t, cudaArray_const_t f, size_t x, size_t y, size_t n, cudaMemcpyKind k, cudaStream_t s), t, f, x, y, n, k, own(s))
PTSZ(cudaMemcpy2DToArrayAsync, (cudaArray_t t, size_t x, size_t y, const void* f, size_t p, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t s), t, x, y, f, p, w, h, k, own(s))
PTSZ(cudaMemcpy2DFromArrayAsync, (void* t, size_t p, cudaArray_const_t f, size_t x, size_t y, size_t w, size_t h, cudaMemcpyKind k, cudaStream_t s), t, p, f, x, y, w, h, k, own(s))
PTSZ(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* p, cudaStream_t s), p, own(s))
PTSZ(cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* p, cudaStream_t s), p, own(s))
PTSZ(cudaMemcpyBatchAsync, (void* const* t, const void* const* f, const size_t* z, size_t n, cudaMemcpyAttributes* a, size_t* i, size_t m, cudaStream_t s), t, f, z, n, a, i, m, own(s))
PTSZ(cudaMemcpy3DBatchAsync, (size_t n, cudaMemcpy3DBatchOp* o, unsigned long long f, cudaStream_t s), n, o, f, own(s))

PTDS(cudaMemcpy, cudaMemcpyAsync, (void* t, const void* f, size_t n, cudaMemcpyKind k), t, f, n, k)
PTDS(cudaMemcpyToSymbol, cudaMemcpyToSymbolAsync, (const void* t, const void* f, size_t n, size_t o, cudaMemcpyKind k), t, f, n, o, k)
PTDS(cudaMemcpyFromSymbol, cudaMemcpyFromSymbolAsync, (void* t, const void* f, size_t n, size_t o, cudaMemcpyKind k), t, f, n, o, k)
PTDS(cudaMemcpy2D, cudaMemcpy2DAsync, (void* t, size_t tp, const void* f, size_t fp, size_t w, size_t h, cudaMemcpyKind k), t, tp, f, fp, w, h, k)
PTDS(cudaMemcpyToArray, cudaMemcpyToArrayAsync, (cudaArray_t t, size_t x, size_t y, const void* f, size_t n, cudaMemcpyKind k), t, x, y, f, n, k)
PTDS(cudaMemcpyFromArray, cudaMemcpyFromArrayAsync, (void* t, cudaArray_const_t f, size_t x, size_t y, size_t n, cudaMemcpyKind k), t, f, x, y, n, k)
PTDS(cudaMemcpy2DToArray, cudaMemcpy2DToArrayAsync, (cudaArray_t t, size_t x, size_t y, const void* f, size_t p, size_t w, size_t h, cudaMemcpyKind k), t, x, y, f, p, w, h, k)
PTDS(cudaMemcpy2DFromArray, cudaMemcpy2DFromArrayAsync, (void* t, size_t p, cudaArray_const_t f, size_t x, size_t y, size_t w, size_t h, cudaMemcpyKind k), t, p, f, x, y, w, h, k)
PTDS(cudaMemcpy3D, cudaMemcpy3DAsync, (const cudaMemcpy3DParms* p), p)
PTDS(cudaMemcpy3DPeer, cudaMemcpy3DPeerAsync, (const cudaMemcpy3DPeerParms* p), p)

// The copies between arrays have no asynchronous twin: what the thread's stream holds must be done before they begin.
#define AFTER(name, parameters, ...)                                            \
    API name##_ptds parameters {                                                \
        cudaError_t error = cudaStreamSynchronize(cudaStreamPerThread);         \
        return error ? error : name(__VA_ARGS__);                               \
    }
AFTER(cudaMemcpy2DArrayToArray, (cudaArray_t t, size_t tx, size_t ty, cudaArray_const_t f, size_t fx, size_t fy, size_t w, size_t h, cudaMemcpyKind k), t, tx, ty, f, fx, fy, w, h, k)
AFTER(cudaMemcpyArrayToArray, (cudaArray_t t, size_t tx, size_t ty, cudaArray_const_t f, size_t fx, size_t fy, size_t n, cudaMemcpyKind k), t, tx, ty, f, fx, fy, n, k)

// ---- fills ---------------------------------------------------------------------------------------------------------
PTSZ(cudaMemsetAsync, (void* t, int v, size_t n, cudaStream_t s), t, v, n, own(s))
PTSZ(cudaMemset2DAsync, (void* t, size_t p, int v, size_t w, size_t h, cudaStream_t s), t, p, v, w, h, own(s))
PTSZ(cudaMemset3DAsync, (cudaPitchedPtr p, int v, cudaExtent e, cudaStream_t s), p, v, e, own(s))
PTDS(cudaMemset, cudaMemsetAsync, (void* t, int v, size_t n), t, v, n)
PTDS(cudaMemset2D, cudaMemset2DAsync, (void* t, size_t p, int v, size_t w, size_t h), t, p, v, w, h)
PTDS(cudaMemset3D, cudaMemset3DAsync, (cudaPitchedPtr p, int v, cudaExtent e), p, v, e)

// ---- memory --------------------------------------------------------------------------------------------------------
PTSZ(cudaMallocAsync, (void** p, size_t n, cudaStream_t s), p, n, own(s))
PTSZ(cudaMallocFromPoolAsync, (void** p, size_t n, cudaMemPool_t m, cudaStream_t s), p, n, m, own(s))
PTSZ(cudaFreeAsync, (void* p, cudaStream_t s), p, own(s))
PTSZ(cudaMemPrefetchAsync, (const void* p, size_t n, cudaMemLocation l, unsigned f, cudaStream_t s), p, n, l, f, own(s))
PTSZ(cudaMemPrefetchBatchAsync, (void** p, size_t* z, size_t n, cudaMemLocation* l, size_t* i, size_t m, unsigned long long f, cudaStream_t s), p, z, n, l, i, m, f, own(s))
PTSZ(cudaMemDiscardBatchAsync, (void** p, size_t* z, size_t n, unsigned long long f, cudaStream_t s), p, z, n, f, own(s))
PTSZ(cudaMemDiscardAndPrefetchBatchAsync, (void** p, size_t* z, size_t n, cudaMemLocation* l, size_t* i, size_t m, unsigned long long f, cudaStream_t s), p, z, n, l, i, m, f, own(s))
PTSZ(cudaSignalExternalSemaphoresAsync, (const cudaExternalSemaphore_t* x, const cudaExternalSemaphoreSignalParams* p, unsigned n, cudaStream_t s), x, p, n, own(s))
PTSZ(cudaWaitExternalSemaphoresAsync, (const cudaExternalSemaphore_t* x, const cudaExternalSemaphoreWaitParams* p, unsigned n, cudaStream_t s), x, p, n, own(s))

// The driver's functions themselves are asked for in their per-thread form.
API cudaGetDriverEntryPointByVersion_ptsz(const char* name, void** function, unsigned version, unsigned long long flags,
                                          cudaDriverEntryPointQueryResult* status) {
    if (flags == cudaEnableDefault) flags = cudaEnablePerThreadDefaultStream;
    return cudaGetDriverEntryPointByVersion(name, function, version, flags, status);
}
API cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags,
                                 cudaDriverEntryPointQueryResult* status) {
    return cudaGetDriverEntryPointByVersion_ptsz(name, function, runtime_version, flags, status);
}
// clang-format on
