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

// Multiprocessors of a device: all of them, or what a split gave. A CUdevResource of the driver's is full of its own
// data, which a guest neither sees nor gives: here it is how it was come by, and the worker asks the driver for it
// again.
struct Split {  // as cuDevSmResourceSplitByCount was asked
    CUdevice device;
    unsigned groups;  // 0: not split, all of the device's
    unsigned flags, least;
};
struct Parts {  // some of what one split gave
    static constexpr unsigned most = 80, rest = ~0u;
    Split of;
    unsigned count;        // 0: not split
    unsigned which[most];  // groups, by number, or what remained
};
CUresult device_resource(CUdevice device, CUdevSmResource* all);
CUresult context_resource(CUcontext context, CUdevSmResource* its);
CUresult split_resource(Split split, CUdevSmResource* groups, unsigned* count, CUdevSmResource* rest);
// A green context, as the context that cuCtxFromGreenCtx makes of it: to the driver, too, both are one handle.
CUresult create_green(CUcontext* context, Parts parts, unsigned flags, CUdevice device);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_CONTEXT_ROWS(X)                                                                  \
    X(cuDeviceGetTexture1DLinearMaxWidth,                   call,       anywhere|asks, out, in, in, in) \
    X(cuDeviceCanAccessPeer,                                call,       anywhere|asks, out, in, in) \
    X(cuDeviceGetP2PAttribute,                              call,       anywhere|asks, out, in, in, in) \
    X(cuDeviceGetP2PAtomicCapabilities,                     call,       anywhere|asks, all<2>, operations<2>, in, in, in) \
    X(cuDeviceGetHostAtomicCapabilities,                    call,       anywhere|asks, all<2>, operations<2>, in, in) \
    X(cuDeviceGetExecAffinitySupport,                       call,       anywhere|asks, out, in, in) \
    X(cuFlushGPUDirectRDMAWrites,                           call,       asks|current,  in, in)           \
    X(cuDevicePrimaryCtxSetFlags_v2,                        inner_call, anywhere|lasts, in, in)     \
    X(cuCtxGetFlags,                                        call,       asks|current,  out)              \
    X(cuCtxSetFlags,                                        inner_call, lasts|current, in)               \
    X(cuCtxGetLimit,                                        call,       asks|current,  out, in)          \
    X(cuCtxSetLimit,                                        call,       configures|lasts|current, in, in) \
    X(cuCtxGetCacheConfig,                                  call,       asks|current,  out)              \
    X(cuCtxSetCacheConfig,                                  call,       configures|lasts|current, in)    \
    X(cuCtxGetStreamPriorityRange,                          call,       asks|current,  maybe, maybe)     \
    X(cuCtxResetPersistingL2Cache,                          call,       asks|current)                    \
    X(cuCtxGetExecAffinity,                                 call,       asks|current,  out, in)          \
    X(cuCtxEnablePeerAccess,                                call,       lasts|current, use, in)          \
    X(cuCtxDisablePeerAccess,                               call,       lasts|current, use)              \
    X(cuProfilerStart,                                      call,       lasts|current)                   \
    X(cuProfilerStop,                                       call,       lasts|current)                   \
    X(cuCtxRecordEvent,                                     inner_call, hosted|work|lasts, use, use) \
    X(cuCtxWaitEvent,                                       call,       hosted|work, use, use)   \
    X(cuCtxDestroy_v2,                                      inner_call, configures|hosted, drop) \
    X(cuDevicePrimaryCtxRetain,                             inner_call, hosted, give, in)        \
    X(cuDevicePrimaryCtxReset_v2,                           inner_call, configures|hosted|resets, in) \
    X(cuCtxCreate_v4,                                       guest,      plain)                   \
    X(cuCtxFromGreenCtx,                                    guest,      plain)                   \
    X(cuCtxGetApiVersion,                                   guest,      plain)                   \
    X(cuCtxGetCurrent,                                      guest,      plain)                   \
    X(cuCtxGetDevice,                                       guest,      plain)                   \
    X(cuCtxGetDevice_v2,                                    guest,      plain)                   \
    X(cuCtxGetDevResource,                                  guest,      plain)                   \
    X(cuCtxGetId,                                           guest,      plain)                   \
    X(cuCtxPopCurrent_v2,                                   guest,      plain)                   \
    X(cuCtxPushCurrent_v2,                                  guest,      plain)                   \
    X(cuCtxSetCurrent,                                      guest,      plain)                   \
    X(cuCtxSynchronize,                                     guest,      plain)                   \
    X(cuCtxSynchronize_v2,                                  guest,      plain)                   \
    X(cuDevResourceGenerateDesc,                            guest,      plain)                   \
    X(cuDevSmResourceSplitByCount,                          guest,      plain)                   \
    X(cuDeviceGet,                                          guest,      plain)                   \
    X(cuDeviceGetAttribute,                                 guest,      plain)                   \
    X(cuDeviceGetByPCIBusId,                                guest,      plain)                   \
    X(cuDeviceGetCount,                                     guest,      plain)                   \
    X(cuDeviceGetDevResource,                               guest,      plain)                   \
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
    X(cuGreenCtxCreate,                                     guest,      plain)                   \
    X(cuGreenCtxDestroy,                                    guest,      plain)                   \
    X(cuGreenCtxGetDevResource,                             guest,      plain)                   \
    X(cuGreenCtxGetId,                                      guest,      plain)                   \
    X(cuGreenCtxRecordEvent,                                guest,      plain)                   \
    X(cuGreenCtxStreamCreate,                               guest,      plain)                   \
    X(cuGreenCtxWaitEvent,                                  guest,      plain)                   \
    X(cuInit,                                               guest,      plain)                   \
    X(cuLogsCurrent,                                        guest,      plain)                   \
    X(cuLogsDumpToFile,                                     guest,      plain)                   \
    X(cuLogsDumpToMemory,                                   guest,      plain)                   \
    X(cuLogsRegisterCallback,                               guest,      plain)                   \
    X(cuLogsUnregisterCallback,                             guest,      plain)

//    ours
#define BARCUDA_CONTEXT_OWN_ROWS(X) \
    X(create_context,                                       call,       plain, make, in, in)     \
    X(device_resource,                                      call,       anywhere|asks, in, out)  \
    X(context_resource,                                     call,       anywhere|asks, use, out) \
    X(split_resource,                                       call,       anywhere|asks, in, all<2>, inout, out) \
    X(create_green,                                         call,       plain, make, in, in, in)
// clang-format on
