// SPDX-License-Identifier: Apache-2.0
// stream.h: rows of streams, events, captures, the program's own functions in a stream. (What a row says:
// shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// A 64-bit word of the region, and what the GPU writes there when all earlier work of the stream is done.
struct Fence {
    std::uint64_t offset;  // 0: none
    std::uint64_t value;   // more than any that was asked of this word before
};
CUresult write_fence(CUstream stream, Fence fence);
CUresult record_event(CUevent event, CUstream stream, unsigned flags, Fence fence);

// The stream waits until the client has run the function that it calls `function`. `with_status`: as
// cuStreamAddCallback does it.
CUresult launch_host(CUstream stream, std::uint64_t function, unsigned with_status);

CUresult capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      CUgraphNode* nodes, std::size_t* count);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_STREAM_ROWS(X)                                                                                         \
    X(cuStreamGetPriority,                                  inner_call, asks,  use, out)                               \
    X(cuStreamGetFlags,                                     inner_call, asks,  use, out)                               \
    X(cuStreamGetId,                                        guest,      plain)                                         \
    X(cuStreamGetDevice,                                    inner_call, asks,  use, out)                               \
    X(cuStreamCopyAttributes,                               call,       configures|lasts, use, use)                    \
    X(cuStreamWaitValue32_v2,                               post,       work, use, device_word<4>, in, in)             \
    X(cuStreamWaitValue64_v2,                               post,       work, use, device_word<8>, in, in)             \
    X(cuStreamWriteValue32_v2,                              post,       work, use, device_word<4>, in, in)             \
    X(cuStreamWriteValue64_v2,                              post,       work, use, device_word<8>, in, in)             \
    X(cuStreamBatchMemOp_v2,                                post,       work, use, in, memory_operations<1>, in)       \
    X(cuStreamCreateWithPriority,                           inner_call, current, make, in, in)                           \
    X(cuStreamDestroy_v2,                                   inner_post, plain, drop)                                   \
    X(cuStreamQuery,                                        inner_call, asks,  use)                                    \
    X(cuEventCreate,                                        inner_call, current, make, in)                               \
    X(cuEventDestroy_v2,                                    inner_post, plain, drop)                                   \
    X(cuEventElapsedTime_v2,                                call,       asks,  out, use, use)                          \
    X(cuEventQuery,                                         inner_call, asks,  use)                                    \
    X(cuStreamBeginCapture_v2,                              inner_call, plain, use, captures)                          \
    X(cuStreamBeginCaptureToGraph,                          inner_call, plain, use, use, nodes<4>, edges<4>, in, captures) \
    X(cuStreamEndCapture,                                   inner_call, hosted|lasts, use, give)                        \
    X(cuStreamIsCapturing,                                  inner_call, asks,  use, out)                               \
    X(cuStreamUpdateCaptureDependencies_v2,                 call,       lasts, use, nodes<3>, edges<3>, in, in)        \
    X(cuStreamWaitEvent,                                    inner_post, work, use, use, in)                            \
    X(cuEventRecordWithFlags,                               inner_post, work|lasts, use, use, in)                      \
    X(cuStreamSynchronize,                                  inner_call, hosted|asks, use)                              \
    X(cuEventSynchronize,                                   inner_call, hosted|asks, use)                              \
    X(cuStreamGetAttribute,                                 call,       hosted|asks, use, in, out)                     \
    X(cuStreamSetAttribute,                                 call,       configures|hosted|lasts, use, in, desc)        \
    X(cuEventRecord,                                        guest,      plain)                                         \
    X(cuLaunchHostFunc,                                     guest,      plain)                                         \
    X(cuStreamAddCallback,                                  guest,      plain)                                         \
    X(cuStreamAttachMemAsync,                               guest,      plain)                                         \
    X(cuStreamCreate,                                       guest,      plain)                                         \
    X(cuStreamGetCaptureInfo_v3,                            guest,      plain)                                         \
    X(cuStreamGetCtx,                                       guest,      plain)                                         \
    X(cuStreamGetCtx_v2,                                    guest,      plain)                                         \
    X(cuStreamGetGreenCtx,                                  guest,      plain)                                         \
    X(cuThreadExchangeStreamCaptureMode,                    guest,      plain)

//    ours
#define BARCUDA_STREAM_OWN_ROWS(X)                                                                                \
    X(write_fence,                                          post,       waits, use, fence)                        \
    X(record_event,                                         post,       work|lasts, use, use, in, fence)          \
    X(launch_host,                                          post,       work, use, in, in)                        \
    X(capture_info,                                         call,       plain, use, out, out, give, heads, inout)
// clang-format on
