// per_thread.cc: the twins that programs call when they were compiled for per-thread default streams
// (CUDA_API_PER_THREAD_DEFAULT_STREAM): the same functions, in which no stream means the calling thread's own. Derived
// from the prototypes, as in remote.cc; cuda.h says which functions have a twin, and a test compares.
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/streams.h"

// clang-format off
#define BARCUDA_TWINS(X) \
    X(cuMemPrefetchAsync_v2, ptsz) X(cuMemcpyHtoD_v2, ptds) X(cuMemcpyDtoH_v2, ptds)                           \
    X(cuMemcpyDtoD_v2, ptds) X(cuMemcpyDtoA_v2, ptds) X(cuMemcpyAtoD_v2, ptds) X(cuMemcpyHtoA_v2, ptds)        \
    X(cuMemcpyAtoH_v2, ptds) X(cuMemcpyAtoA_v2, ptds) X(cuMemcpyHtoAAsync_v2, ptsz)                            \
    X(cuMemcpyAtoHAsync_v2, ptsz) X(cuMemcpy2D_v2, ptds) X(cuMemcpy2DUnaligned_v2, ptds)                       \
    X(cuMemcpy3D_v2, ptds) X(cuMemcpyHtoDAsync_v2, ptsz) X(cuMemcpyDtoHAsync_v2, ptsz)                         \
    X(cuMemcpyDtoDAsync_v2, ptsz) X(cuMemcpy2DAsync_v2, ptsz) X(cuMemcpy3DAsync_v2, ptsz)                      \
    X(cuMemcpyBatchAsync_v2, ptsz) X(cuMemsetD8_v2, ptds) X(cuMemsetD16_v2, ptds) X(cuMemsetD32_v2, ptds)      \
    X(cuMemsetD2D8_v2, ptds) X(cuMemsetD2D16_v2, ptds) X(cuMemsetD2D32_v2, ptds)                               \
    X(cuStreamBeginCapture_v2, ptsz) X(cuStreamGetCaptureInfo_v3, ptsz)                                        \
    X(cuStreamUpdateCaptureDependencies_v2, ptsz) X(cuMemcpy, ptds) X(cuMemcpyAsync, ptsz)                     \
    X(cuMemcpyPeer, ptds) X(cuMemcpyPeerAsync, ptsz) X(cuMemcpy3DPeer, ptds) X(cuMemcpy3DPeerAsync, ptsz)      \
    X(cuMemsetD8Async, ptsz) X(cuMemsetD16Async, ptsz) X(cuMemsetD32Async, ptsz) X(cuMemsetD2D8Async, ptsz)    \
    X(cuMemsetD2D16Async, ptsz) X(cuMemsetD2D32Async, ptsz) X(cuStreamGetPriority, ptsz)                       \
    X(cuStreamGetId, ptsz) X(cuStreamGetFlags, ptsz) X(cuStreamGetDevice, ptsz) X(cuStreamGetCtx, ptsz)        \
    X(cuStreamWaitEvent, ptsz) X(cuStreamEndCapture, ptsz) X(cuStreamIsCapturing, ptsz)                        \
    X(cuStreamAddCallback, ptsz) X(cuStreamAttachMemAsync, ptsz) X(cuStreamQuery, ptsz)                        \
    X(cuStreamSynchronize, ptsz) X(cuEventRecord, ptsz) X(cuEventRecordWithFlags, ptsz)                        \
    X(cuLaunchKernel, ptsz) X(cuLaunchKernelEx, ptsz) X(cuLaunchHostFunc, ptsz)                                \
    X(cuLaunchCooperativeKernel, ptsz) X(cuGraphInstantiateWithParams, ptsz) X(cuGraphUpload, ptsz)            \
    X(cuGraphLaunch, ptsz) X(cuStreamCopyAttributes, ptsz) X(cuStreamGetAttribute, ptsz)                       \
    X(cuStreamSetAttribute, ptsz) X(cuMemFreeAsync, ptsz) X(cuMemAllocAsync, ptsz)                             \
    X(cuMemAllocFromPoolAsync, ptsz) X(cuStreamBeginCaptureToGraph, ptsz) X(cuStreamWaitValue32_v2, ptsz)      \
    X(cuStreamWaitValue64_v2, ptsz) X(cuStreamWriteValue32_v2, ptsz) X(cuStreamWriteValue64_v2, ptsz)          \
    X(cuStreamBatchMemOp_v2, ptsz)
// clang-format on

namespace barcuda {
namespace {

template <auto function, class Prototype> struct Twin;
template <auto function, class... P> struct Twin<function, CUresult(P...)> {
    static CUresult call(P... arguments) {
        NoStreamIsMine here;
        return function(arguments...);
    }
};

}  // namespace
}  // namespace barcuda

#define X(name, suffix)                                                 \
    CU_RESOLVER decltype(&::name) barcuda_resolve_##name##_##suffix() { \
        return &barcuda::Twin<&::name, decltype(::name)>::call;         \
    }                                                                   \
    extern "C" [[gnu::ifunc("barcuda_resolve_" #name "_" #suffix),      \
                 gnu::visibility("default")]] decltype(name) name##_##suffix;
BARCUDA_TWINS(X)
#undef X
