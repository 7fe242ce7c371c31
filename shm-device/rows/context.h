// SPDX-License-Identifier: Apache-2.0
// context.h: rows of devices and contexts. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// cuCtxCreate without its parameter block.
CUresult create_context(CUcontext* context, unsigned flags, CUdevice device);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_CONTEXT_ROWS(X)                                                                  \
    X(cuDeviceGetTexture1DLinearMaxWidth,                   call,       anywhere, out, in, in, in)  \
    X(cuDeviceCanAccessPeer,                                call,       anywhere, out, in, in)      \
    X(cuDeviceGetP2PAttribute,                              call,       anywhere, out, in, in, in)  \
    X(cuDeviceGetP2PAtomicCapabilities,                     call,       anywhere, all<2>, operations<2>, in, in, in) \
    X(cuDeviceGetHostAtomicCapabilities,                    call,       anywhere, all<2>, operations<2>, in, in) \
    X(cuDeviceGetExecAffinitySupport,                       call,       anywhere, out, in, in)      \
    X(cuFlushGPUDirectRDMAWrites,                           call,       plain, in, in)           \
    X(cuDevicePrimaryCtxSetFlags_v2,                        inner_call, anywhere, in, in)           \
    X(cuCtxGetFlags,                                        call,       plain, out)              \
    X(cuCtxSetFlags,                                        inner_call, plain, in)               \
    X(cuCtxGetLimit,                                        call,       plain, out, in)          \
    X(cuCtxSetLimit,                                        call,       configures, in, in)      \
    X(cuCtxGetCacheConfig,                                  call,       plain, out)              \
    X(cuCtxSetCacheConfig,                                  call,       configures, in)          \
    X(cuCtxGetStreamPriorityRange,                          call,       plain, maybe, maybe)     \
    X(cuCtxResetPersistingL2Cache,                          call,       plain)                   \
    X(cuCtxGetExecAffinity,                                 call,       plain, out, in)          \
    X(cuCtxEnablePeerAccess,                                call,       plain, use, in)          \
    X(cuCtxDisablePeerAccess,                               call,       plain, use)              \
    X(cuProfilerStart,                                      call,       plain)                   \
    X(cuProfilerStop,                                       call,       plain)                   \
    X(cuCtxRecordEvent,                                     inner_call, work, use, use)          \
    X(cuCtxWaitEvent,                                       call,       work, use, use)          \
    X(cuCtxDestroy_v2,                                      inner_call, configures|hosted, drop) \
    X(cuDevicePrimaryCtxRetain,                             inner_call, hosted, give, in)        \
    X(cuDevicePrimaryCtxReset_v2,                           inner_call, configures|hosted, in)   \
    X(cuCtxCreate_v4,                                       guest,      plain)                   \
    X(cuCtxGetApiVersion,                                   guest,      plain)                   \
    X(cuCtxGetCurrent,                                      guest,      plain)                   \
    X(cuCtxGetDevice,                                       guest,      plain)                   \
    X(cuCtxGetDevice_v2,                                    guest,      plain)                   \
    X(cuCtxGetId,                                           guest,      plain)                   \
    X(cuCtxPopCurrent_v2,                                   guest,      plain)                   \
    X(cuCtxPushCurrent_v2,                                  guest,      plain)                   \
    X(cuCtxSetCurrent,                                      guest,      plain)                   \
    X(cuCtxSynchronize,                                     guest,      plain)                   \
    X(cuCtxSynchronize_v2,                                  guest,      plain)                   \
    X(cuDeviceGet,                                          guest,      plain)                   \
    X(cuDeviceGetAttribute,                                 guest,      plain)                   \
    X(cuDeviceGetByPCIBusId,                                guest,      plain)                   \
    X(cuDeviceGetCount,                                     guest,      plain)                   \
    X(cuDeviceGetName,                                      guest,      plain)                   \
    X(cuDeviceGetPCIBusId,                                  guest,      plain)                   \
    X(cuDeviceGetUuid_v2,                                   guest,      plain)                   \
    X(cuDevicePrimaryCtxGetState,                           guest,      plain)                   \
    X(cuDevicePrimaryCtxRelease_v2,                         guest,      plain)                   \
    X(cuDeviceTotalMem_v2,                                  guest,      plain)                   \
    X(cuDriverGetVersion,                                   guest,      plain)                   \
    X(cuGetErrorName,                                       guest,      plain)                   \
    X(cuGetErrorString,                                     guest,      plain)                   \
    X(cuGetExportTable,                                     guest,      plain)                   \
    X(cuGetProcAddress_v2,                                  guest,      plain)                   \
    X(cuInit,                                               guest,      plain)                   \
    X(cuLogsCurrent,                                        guest,      plain)                   \
    X(cuLogsDumpToFile,                                     guest,      plain)                   \
    X(cuLogsDumpToMemory,                                   guest,      plain)                   \
    X(cuLogsRegisterCallback,                               guest,      plain)                   \
    X(cuLogsUnregisterCallback,                             guest,      plain)

//    ours
#define BARCUDA_CONTEXT_OWN_ROWS(X) \
    X(create_context,                                       call,       plain, make, in, in)
// clang-format on
