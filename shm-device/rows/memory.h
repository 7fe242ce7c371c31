// SPDX-License-Identifier: Apache-2.0
// memory.h: rows of memory of the device and of the host: allocations, pools, virtual memory, sharing between
// processes. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

// What stands for a driver's descriptor of memory or of a pool outside the host: as unguessable as those of cuIpc*.
struct Token {
    char bytes[64];
};
CUresult export_memory(Token* token, CUmemGenericAllocationHandle memory);
CUresult import_memory(CUmemGenericAllocationHandle* memory, Token token);
CUresult export_pool(Token* token, CUmemoryPool pool);
CUresult import_pool(CUmemoryPool* pool, Token token);
// The program has closed all descriptors that this client made of the token.
CUresult withdraw(Token token);

// cuMemRetainAllocationHandle. The client holds each handle once, however often its program does.
CUresult retain_memory(CUmemGenericAllocationHandle* memory, CUdeviceptr address);

// cuPointerGetAttribute of device memory, for attributes of at most eight bytes. Of its context whether it has one; of
// its pool the client's handle, or 0: the client has none.
CUresult pointer_attribute(std::uint64_t* value, CUpointer_attribute attribute, CUdeviceptr address);
// cuPointerSetAttribute: there is one attribute that may be set, and it is a number.
CUresult set_pointer_attribute(CUpointer_attribute attribute, unsigned value, CUdeviceptr address);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_MEMORY_ROWS(X)                                                                        \
    X(cuMemGetInfo_v2,                                      inner_call, counts|tells_room|asks|current, out, out) \
    X(cuMemAllocPitch_v2,                                   call,       hosted|charges(2, 3)|current, out, out, in, in, in) \
    X(cuMemGetAddressRange_v2,                              inner_call, hosted|counts|asks|current, maybe, maybe, in) \
    X(cuMemAllocAsync,                                      inner_call, hosted|charges(1)|graphs_allocate, out, in, use) \
    X(cuMemAllocFromPoolAsync,                              inner_call, hosted|charges(1)|graphs_allocate, out, in, use, use) \
    X(cuMemFreeAsync,                                       inner_post, work|hosted, freed, use)             \
    X(cuDeviceGetDefaultMemPool,                            call,       anywhere, give, in)              \
    X(cuDeviceGetMemPool,                                   call,       anywhere, give, in)              \
    X(cuDeviceSetMemPool,                                   inner_call, anywhere|lasts, in, use)         \
    X(cuMemPoolCreate,                                      inner_call, anywhere|uncharged, make, desc)  \
    X(cuMemPoolTrimTo,                                      inner_call, counts|anywhere|asks, use, in)          \
    X(cuMemPoolGetAccess,                                   inner_call, anywhere|asks, out, use, desc)   \
    X(cuMemGetDefaultMemPool,                               inner_call, anywhere|hosted, give, desc, in)        \
    X(cuMemGetMemPool,                                      inner_call, anywhere|hosted, give, desc, in)        \
    X(cuMemSetMemPool,                                      inner_call, anywhere|hosted|lasts, desc, in, use)   \
    X(cuMemPoolSetAccess,                                   inner_call, anywhere|lasts, use, access<2>, in) \
    X(cuMemAddressReserve,                                  call,       anywhere|uncharged, out, in, in, in, in) \
    X(cuMemAddressFree,                                     call,       anywhere, freed, in)             \
    X(cuMemMap,                                             call,       anywhere|maps|lasts, in, in, in, use, in) \
    X(cuMemUnmap,                                           inner_call, anywhere, freed, in)             \
    X(cuMemSetAccess,                                       inner_call, anywhere|lasts, in, in, access<3>, in) \
    X(cuMemGetAccess,                                       inner_call, anywhere|asks, out, desc, in)    \
    X(cuMemCreate,                                          inner_call, anywhere|hosted|charges(1), make, in, desc, in) \
    X(cuMemRelease,                                         inner_call, anywhere, drop)                  \
    X(cuMemGetAllocationGranularity,                        inner_call, anywhere|asks, out, desc, in)    \
    X(cuMemGetAllocationPropertiesFromHandle,               call,       anywhere|asks, told, use)        \
    X(cuMemPoolExportPointer,                               call,       hosted|lasts, out, device_word<1>) \
    X(cuMemPoolImportPointer,                               call,       hosted|uncharged|opens, out, use, desc) \
    X(cuIpcGetMemHandle,                                    inner_call, hosted|lasts|current, out, device_word<1>) \
    X(cuIpcOpenMemHandle_v2,                                inner_call, hosted|uncharged|opens|current, out, in, in) \
    X(cuIpcCloseMemHandle,                                  inner_call, hosted, freed)                \
    X(cuIpcGetEventHandle,                                  inner_call, hosted|lasts, out, use)       \
    X(cuIpcOpenEventHandle,                                 inner_call, hosted|current, make, in)             \
    X(cuMemAlloc_v2,                                        inner_call, hosted|charges(1)|current, out, in)   \
    X(cuMemFree_v2,                                         inner_post, hosted, freed)                \
    X(cuMemPoolDestroy,                                     inner_call, hosted, drop)                 \
    X(cuMemPoolGetAttribute,                                inner_call, counts|anywhere|asks, use, in, attribute) \
    X(cuMemPoolSetAttribute,                                inner_call, anywhere, use, in, attribute_in) \
    X(cuMemAdvise_v2,                                       guest,      plain)                        \
    X(cuMemAllocHost_v2,                                    guest,      plain)                        \
    X(cuMemAllocManaged,                                    guest,      plain)                        \
    X(cuMemExportToShareableHandle,                         guest,      plain)                        \
    X(cuMemFreeHost,                                        guest,      plain)                        \
    X(cuMemDiscardAndPrefetchBatchAsync,                    guest,      plain)                        \
    X(cuMemDiscardBatchAsync,                               guest,      plain)                        \
    X(cuMemHostAlloc,                                       guest,      plain)                        \
    X(cuMemHostGetDevicePointer_v2,                         guest,      plain)                        \
    X(cuMemHostGetFlags,                                    guest,      plain)                        \
    X(cuMemHostRegister_v2,                                 guest,      plain)                        \
    X(cuMemHostUnregister,                                  guest,      plain)                        \
    X(cuMemImportFromShareableHandle,                       guest,      plain)                        \
    X(cuMemPoolExportToShareableHandle,                     guest,      plain)                        \
    X(cuMemPoolImportFromShareableHandle,                   guest,      plain)                        \
    X(cuMemPrefetchAsync_v2,                                guest,      plain)                        \
    X(cuMemPrefetchBatchAsync,                              guest,      plain)                        \
    X(cuMemRangeGetAttribute,                               guest,      plain)                        \
    X(cuMemRangeGetAttributes,                              guest,      plain)                        \
    X(cuMemRetainAllocationHandle,                          guest,      retains)                      \
    X(cuPointerGetAttribute,                                guest,      plain)                        \
    X(cuPointerGetAttributes,                               guest,      plain)                        \
    X(cuPointerSetAttribute,                                guest,      plain)

//    ours
#define BARCUDA_MEMORY_OWN_ROWS(X)                                                                \
    X(pointer_attribute,                                    call,       counts|asks, out, in, in) \
    X(set_pointer_attribute,                                call,       lasts, in, in, device_word<1>) \
    X(export_memory,                                        call,       anywhere|lasts, out, use)    \
    X(import_memory,                                        call,       anywhere|uncharged, make, in) \
    X(export_pool,                                          call,       anywhere|lasts, out, use)    \
    X(import_pool,                                          call,       anywhere|uncharged, make, in) \
    X(withdraw,                                             post,       anywhere|lasts, in)          \
    X(retain_memory,                                        call,       anywhere, give, device_word<1>)
// clang-format on
