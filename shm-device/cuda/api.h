// SPDX-License-Identifier: Apache-2.0
// api.h: the functions of CUDA's driver API as CUDA names them, once. The guest library and the software GPU derive
// from this table what programs find under which name: cuGetProcAddress, the twins for per-thread default streams, the
// names without a version. The table is about CUDA and not about Barcuda: what either library has stands elsewhere.
// tests/unit/rows/api_table_test.cc compares it with the toolkit's headers and with the names that NVIDIA's library
// exports.
//
//   FIRST(name, since, twin)                 a function of CUDA's, exported under its own name since that version
//   LATER(symbol, name, since, twin, form)   what `name` has meant since a later version, exported as `symbol`
//
// since: the version of CUDA (1000 * major + 10 * minor) from which on cuGetProcAddress means this symbol by the name.
// twin:  the symbol has a twin, symbol_ptsz or symbol_ptds, in which no stream means the calling thread's own; or none.
//        (Twins came with CUDA 7.0.)
// form: its parameters beside those of the first: the same, so that a library may export both under one body; wide, the
// same except for sizes and device addresses, which had 32 bits until CUDA 3.2; or others.
#pragma once

// clang-format off
#define BARCUDA_API(FIRST, LATER) \
    /* errors */ \
    FIRST(cuGetErrorString, 6000, none) FIRST(cuGetErrorName, 6000, none) \
    /* initialization */ \
    FIRST(cuInit, 2000, none) \
    /* version */ \
    FIRST(cuDriverGetVersion, 2020, none) \
    /* devices */ \
    FIRST(cuDeviceGet, 2000, none) FIRST(cuDeviceGetCount, 2000, none) FIRST(cuDeviceGetName, 2000, none) \
    FIRST(cuDeviceGetUuid, 9020, none) LATER(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, none, same) \
    FIRST(cuDeviceGetLuid, 10000, none) \
    FIRST(cuDeviceTotalMem, 2000, none) LATER(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, none, wide) \
    FIRST(cuDeviceGetTexture1DLinearMaxWidth, 11010, none) FIRST(cuDeviceGetAttribute, 2000, none) \
    FIRST(cuDeviceGetHostAtomicCapabilities, 13000, none) FIRST(cuDeviceGetNvSciSyncAttributes, 10020, none) \
    FIRST(cuDeviceSetMemPool, 11020, none) FIRST(cuDeviceGetMemPool, 11020, none) \
    FIRST(cuDeviceGetDefaultMemPool, 11020, none) FIRST(cuDeviceGetExecAffinitySupport, 11040, none) \
    FIRST(cuFlushGPUDirectRDMAWrites, 11030, none) \
    FIRST(cuDeviceGetProperties, 2000, none) FIRST(cuDeviceComputeCapability, 2000, none) \
    /* primary contexts */ \
    FIRST(cuDevicePrimaryCtxRetain, 7000, none) \
    FIRST(cuDevicePrimaryCtxRelease, 7000, none) \
    LATER(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, none, same) \
    FIRST(cuDevicePrimaryCtxSetFlags, 7000, none) \
    LATER(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000, none, same) \
    FIRST(cuDevicePrimaryCtxGetState, 7000, none) \
    FIRST(cuDevicePrimaryCtxReset, 7000, none) \
    LATER(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, none, same) \
    /* contexts */ \
    FIRST(cuCtxCreate, 2000, none) LATER(cuCtxCreate_v2, cuCtxCreate, 3020, none, same) \
    LATER(cuCtxCreate_v3, cuCtxCreate, 11040, none, other) LATER(cuCtxCreate_v4, cuCtxCreate, 12050, none, other) \
    FIRST(cuCtxDestroy, 2000, none) LATER(cuCtxDestroy_v2, cuCtxDestroy, 4000, none, same) \
    FIRST(cuCtxPushCurrent, 2000, none) LATER(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, none, same) \
    FIRST(cuCtxPopCurrent, 2000, none) LATER(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, none, same) \
    FIRST(cuCtxSetCurrent, 4000, none) FIRST(cuCtxGetCurrent, 4000, none) \
    FIRST(cuCtxGetDevice, 2000, none) LATER(cuCtxGetDevice_v2, cuCtxGetDevice, 13000, none, other) \
    FIRST(cuCtxGetFlags, 7000, none) FIRST(cuCtxSetFlags, 12010, none) FIRST(cuCtxGetId, 12000, none) \
    FIRST(cuCtxSynchronize, 2000, none) LATER(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, none, other) \
    FIRST(cuCtxSetLimit, 3010, none) FIRST(cuCtxGetLimit, 3010, none) FIRST(cuCtxGetCacheConfig, 3020, none) \
    FIRST(cuCtxSetCacheConfig, 3020, none) FIRST(cuCtxGetApiVersion, 3020, none) \
    FIRST(cuCtxGetStreamPriorityRange, 5050, none) FIRST(cuCtxResetPersistingL2Cache, 11000, none) \
    FIRST(cuCtxGetExecAffinity, 11040, none) FIRST(cuCtxRecordEvent, 12050, none) FIRST(cuCtxWaitEvent, 12050, none) \
    FIRST(cuCtxAttach, 2000, none) FIRST(cuCtxDetach, 2000, none) FIRST(cuCtxGetSharedMemConfig, 4020, none) \
    FIRST(cuCtxSetSharedMemConfig, 4020, none) \
    /* modules and linking */ \
    FIRST(cuModuleLoad, 2000, none) FIRST(cuModuleLoadData, 2000, none) FIRST(cuModuleLoadDataEx, 2010, none) \
    FIRST(cuModuleLoadFatBinary, 2000, none) FIRST(cuModuleUnload, 2000, none) \
    FIRST(cuModuleGetLoadingMode, 11070, none) FIRST(cuModuleGetFunction, 2000, none) \
    FIRST(cuModuleGetFunctionCount, 12040, none) FIRST(cuModuleEnumerateFunctions, 12040, none) \
    FIRST(cuModuleGetGlobal, 2000, none) LATER(cuModuleGetGlobal_v2, cuModuleGetGlobal, 3020, none, wide) \
    FIRST(cuLinkCreate, 5050, none) LATER(cuLinkCreate_v2, cuLinkCreate, 6050, none, same) \
    FIRST(cuLinkAddData, 5050, none) LATER(cuLinkAddData_v2, cuLinkAddData, 6050, none, same) \
    FIRST(cuLinkAddFile, 5050, none) LATER(cuLinkAddFile_v2, cuLinkAddFile, 6050, none, same) \
    FIRST(cuLinkComplete, 5050, none) FIRST(cuLinkDestroy, 5050, none) \
    FIRST(cuModuleGetTexRef, 2000, none) FIRST(cuModuleGetSurfRef, 3000, none) \
    /* libraries and kernels */ \
    FIRST(cuLibraryLoadData, 12000, none) FIRST(cuLibraryLoadFromFile, 12000, none) \
    FIRST(cuLibraryUnload, 12000, none) FIRST(cuLibraryGetKernel, 12000, none) \
    FIRST(cuLibraryGetKernelCount, 12040, none) FIRST(cuLibraryEnumerateKernels, 12040, none) \
    FIRST(cuLibraryGetModule, 12000, none) FIRST(cuKernelGetFunction, 12000, none) \
    FIRST(cuKernelGetLibrary, 12050, none) FIRST(cuLibraryGetGlobal, 12000, none) \
    FIRST(cuLibraryGetManaged, 12000, none) FIRST(cuLibraryGetUnifiedFunction, 12000, none) \
    FIRST(cuKernelGetAttribute, 12000, none) FIRST(cuKernelSetAttribute, 12000, none) \
    FIRST(cuKernelSetCacheConfig, 12000, none) FIRST(cuKernelGetName, 12030, none) \
    FIRST(cuKernelGetParamInfo, 12040, none) \
    /* memory */ \
    FIRST(cuMemGetInfo, 2000, none) LATER(cuMemGetInfo_v2, cuMemGetInfo, 3020, none, wide) \
    FIRST(cuMemAlloc, 2000, none) LATER(cuMemAlloc_v2, cuMemAlloc, 3020, none, wide) \
    FIRST(cuMemAllocPitch, 2000, none) LATER(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, none, wide) \
    FIRST(cuMemFree, 2000, none) LATER(cuMemFree_v2, cuMemFree, 3020, none, wide) \
    FIRST(cuMemGetAddressRange, 2000, none) LATER(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, none, wide) \
    FIRST(cuMemAllocHost, 2000, none) LATER(cuMemAllocHost_v2, cuMemAllocHost, 3020, none, wide) \
    FIRST(cuMemFreeHost, 2000, none) FIRST(cuMemHostAlloc, 2020, none) \
    FIRST(cuMemHostGetDevicePointer, 2020, none) \
    LATER(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, none, wide) \
    FIRST(cuMemHostGetFlags, 2030, none) FIRST(cuMemAllocManaged, 6000, none) \
    FIRST(cuDeviceRegisterAsyncNotification, 12040, none) FIRST(cuDeviceUnregisterAsyncNotification, 12040, none) \
    FIRST(cuDeviceGetByPCIBusId, 4010, none) FIRST(cuDeviceGetPCIBusId, 4010, none) \
    FIRST(cuIpcGetEventHandle, 4010, none) FIRST(cuIpcOpenEventHandle, 4010, none) \
    FIRST(cuIpcGetMemHandle, 4010, none) \
    FIRST(cuIpcOpenMemHandle, 4010, none) LATER(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000, none, same) \
    FIRST(cuIpcCloseMemHandle, 4010, none) \
    FIRST(cuMemHostRegister, 4000, none) LATER(cuMemHostRegister_v2, cuMemHostRegister, 6050, none, same) \
    FIRST(cuMemHostUnregister, 4000, none) FIRST(cuMemcpy, 4000, ptds) FIRST(cuMemcpyPeer, 4000, ptds) \
    FIRST(cuMemcpyHtoD, 2000, none) LATER(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, ptds, wide) \
    FIRST(cuMemcpyDtoH, 2000, none) LATER(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, ptds, wide) \
    FIRST(cuMemcpyDtoD, 2000, none) LATER(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, ptds, wide) \
    FIRST(cuMemcpyDtoA, 2000, none) LATER(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, ptds, wide) \
    FIRST(cuMemcpyAtoD, 2000, none) LATER(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, ptds, wide) \
    FIRST(cuMemcpyHtoA, 2000, none) LATER(cuMemcpyHtoA_v2, cuMemcpyHtoA, 3020, ptds, wide) \
    FIRST(cuMemcpyAtoH, 2000, none) LATER(cuMemcpyAtoH_v2, cuMemcpyAtoH, 3020, ptds, wide) \
    FIRST(cuMemcpyAtoA, 2000, none) LATER(cuMemcpyAtoA_v2, cuMemcpyAtoA, 3020, ptds, wide) \
    FIRST(cuMemcpy2D, 2000, none) LATER(cuMemcpy2D_v2, cuMemcpy2D, 3020, ptds, wide) \
    FIRST(cuMemcpy2DUnaligned, 2000, none) LATER(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, ptds, wide) \
    FIRST(cuMemcpy3D, 2000, none) LATER(cuMemcpy3D_v2, cuMemcpy3D, 3020, ptds, wide) \
    FIRST(cuMemcpy3DPeer, 4000, ptds) FIRST(cuMemcpyAsync, 4000, ptsz) FIRST(cuMemcpyPeerAsync, 4000, ptsz) \
    FIRST(cuMemcpyHtoDAsync, 2000, none) LATER(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpyDtoHAsync, 2000, none) LATER(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpyDtoDAsync, 3000, none) LATER(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpyHtoAAsync, 2000, none) LATER(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpyAtoHAsync, 2000, none) LATER(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpy2DAsync, 2000, none) LATER(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpy3DAsync, 2000, none) LATER(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, ptsz, wide) \
    FIRST(cuMemcpy3DPeerAsync, 4000, ptsz) \
    FIRST(cuMemcpyBatchAsync, 12080, ptsz) LATER(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, ptsz, other) \
    FIRST(cuMemcpy3DBatchAsync, 12080, ptsz) LATER(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, ptsz, other) \
    FIRST(cuMemsetD8, 2000, none) LATER(cuMemsetD8_v2, cuMemsetD8, 3020, ptds, wide) \
    FIRST(cuMemsetD16, 2000, none) LATER(cuMemsetD16_v2, cuMemsetD16, 3020, ptds, wide) \
    FIRST(cuMemsetD32, 2000, none) LATER(cuMemsetD32_v2, cuMemsetD32, 3020, ptds, wide) \
    FIRST(cuMemsetD2D8, 2000, none) LATER(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, ptds, wide) \
    FIRST(cuMemsetD2D16, 2000, none) LATER(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, ptds, wide) \
    FIRST(cuMemsetD2D32, 2000, none) LATER(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, ptds, wide) \
    FIRST(cuMemsetD8Async, 3020, ptsz) FIRST(cuMemsetD16Async, 3020, ptsz) FIRST(cuMemsetD32Async, 3020, ptsz) \
    FIRST(cuMemsetD2D8Async, 3020, ptsz) FIRST(cuMemsetD2D16Async, 3020, ptsz) FIRST(cuMemsetD2D32Async, 3020, ptsz) \
    FIRST(cuArrayCreate, 2000, none) LATER(cuArrayCreate_v2, cuArrayCreate, 3020, none, wide) \
    FIRST(cuArrayGetDescriptor, 2000, none) LATER(cuArrayGetDescriptor_v2, cuArrayGetDescriptor, 3020, none, wide) \
    FIRST(cuArrayGetSparseProperties, 11010, none) FIRST(cuMipmappedArrayGetSparseProperties, 11010, none) \
    FIRST(cuArrayGetMemoryRequirements, 11060, none) FIRST(cuMipmappedArrayGetMemoryRequirements, 11060, none) \
    FIRST(cuArrayGetPlane, 11020, none) FIRST(cuArrayDestroy, 2000, none) \
    FIRST(cuArray3DCreate, 2000, none) LATER(cuArray3DCreate_v2, cuArray3DCreate, 3020, none, wide) \
    FIRST(cuArray3DGetDescriptor, 2000, none) \
    LATER(cuArray3DGetDescriptor_v2, cuArray3DGetDescriptor, 3020, none, wide) \
    FIRST(cuMipmappedArrayCreate, 5000, none) FIRST(cuMipmappedArrayGetLevel, 5000, none) \
    FIRST(cuMipmappedArrayDestroy, 5000, none) FIRST(cuMemGetHandleForAddressRange, 11070, none) \
    FIRST(cuMemBatchDecompressAsync, 12060, ptsz) \
    /* virtual memory */ \
    FIRST(cuMemAddressReserve, 10020, none) FIRST(cuMemAddressFree, 10020, none) FIRST(cuMemCreate, 10020, none) \
    FIRST(cuMemRelease, 10020, none) FIRST(cuMemMap, 10020, none) FIRST(cuMemMapArrayAsync, 11010, ptsz) \
    FIRST(cuMemUnmap, 10020, none) FIRST(cuMemSetAccess, 10020, none) FIRST(cuMemGetAccess, 10020, none) \
    FIRST(cuMemExportToShareableHandle, 10020, none) FIRST(cuMemImportFromShareableHandle, 10020, none) \
    FIRST(cuMemGetAllocationGranularity, 10020, none) FIRST(cuMemGetAllocationPropertiesFromHandle, 10020, none) \
    FIRST(cuMemRetainAllocationHandle, 11000, none) \
    /* pools */ \
    FIRST(cuMemFreeAsync, 11020, ptsz) FIRST(cuMemAllocAsync, 11020, ptsz) FIRST(cuMemPoolTrimTo, 11020, none) \
    FIRST(cuMemPoolSetAttribute, 11020, none) FIRST(cuMemPoolGetAttribute, 11020, none) \
    FIRST(cuMemPoolSetAccess, 11020, none) FIRST(cuMemPoolGetAccess, 11020, none) FIRST(cuMemPoolCreate, 11020, none) \
    FIRST(cuMemPoolDestroy, 11020, none) FIRST(cuMemGetDefaultMemPool, 13000, none) \
    FIRST(cuMemGetMemPool, 13000, none) FIRST(cuMemSetMemPool, 13000, none) \
    FIRST(cuMemAllocFromPoolAsync, 11020, ptsz) FIRST(cuMemPoolExportToShareableHandle, 11020, none) \
    FIRST(cuMemPoolImportFromShareableHandle, 11020, none) FIRST(cuMemPoolExportPointer, 11020, none) \
    FIRST(cuMemPoolImportPointer, 11020, none) \
    /* multicast */ \
    FIRST(cuMulticastCreate, 12010, none) FIRST(cuMulticastAddDevice, 12010, none) \
    FIRST(cuMulticastBindMem, 12010, none) FIRST(cuMulticastBindAddr, 12010, none) \
    FIRST(cuMulticastUnbind, 12010, none) FIRST(cuMulticastGetGranularity, 12010, none) \
    /* unified addresses */ \
    FIRST(cuPointerGetAttribute, 4000, none) \
    FIRST(cuMemPrefetchAsync, 8000, ptsz) LATER(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020, ptsz, other) \
    FIRST(cuMemAdvise, 8000, none) LATER(cuMemAdvise_v2, cuMemAdvise, 12020, none, other) \
    FIRST(cuMemPrefetchBatchAsync, 13000, ptsz) FIRST(cuMemDiscardBatchAsync, 13000, ptsz) \
    FIRST(cuMemDiscardAndPrefetchBatchAsync, 13000, ptsz) FIRST(cuMemRangeGetAttribute, 8000, none) \
    FIRST(cuMemRangeGetAttributes, 8000, none) FIRST(cuPointerSetAttribute, 6000, none) \
    FIRST(cuPointerGetAttributes, 7000, none) \
    /* streams */ \
    FIRST(cuStreamCreate, 2000, none) FIRST(cuStreamCreateWithPriority, 5050, none) \
    FIRST(cuStreamGetPriority, 5050, ptsz) FIRST(cuStreamGetDevice, 12080, ptsz) FIRST(cuStreamGetFlags, 5050, ptsz) \
    FIRST(cuStreamGetId, 12000, ptsz) \
    FIRST(cuStreamGetCtx, 9020, ptsz) LATER(cuStreamGetCtx_v2, cuStreamGetCtx, 12050, ptsz, other) \
    FIRST(cuStreamWaitEvent, 3020, ptsz) FIRST(cuStreamAddCallback, 5000, ptsz) \
    FIRST(cuStreamBeginCapture, 10000, ptsz) LATER(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, ptsz, other) \
    FIRST(cuStreamBeginCaptureToGraph, 12030, ptsz) FIRST(cuThreadExchangeStreamCaptureMode, 10010, none) \
    FIRST(cuStreamEndCapture, 10000, ptsz) FIRST(cuStreamIsCapturing, 10000, ptsz) \
    FIRST(cuStreamGetCaptureInfo, 10010, ptsz) \
    LATER(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030, ptsz, other) \
    LATER(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030, ptsz, other) \
    FIRST(cuStreamUpdateCaptureDependencies, 11030, ptsz) \
    LATER(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies, 12030, ptsz, other) \
    FIRST(cuStreamAttachMemAsync, 6000, ptsz) FIRST(cuStreamQuery, 2000, ptsz) FIRST(cuStreamSynchronize, 2000, ptsz) \
    FIRST(cuStreamDestroy, 2000, none) LATER(cuStreamDestroy_v2, cuStreamDestroy, 4000, none, same) \
    FIRST(cuStreamCopyAttributes, 11000, ptsz) FIRST(cuStreamGetAttribute, 11000, ptsz) \
    FIRST(cuStreamSetAttribute, 11000, ptsz) \
    /* events */ \
    FIRST(cuEventCreate, 2000, none) FIRST(cuEventRecord, 2000, ptsz) FIRST(cuEventRecordWithFlags, 11010, ptsz) \
    FIRST(cuEventQuery, 2000, none) FIRST(cuEventSynchronize, 2000, none) \
    FIRST(cuEventDestroy, 2000, none) LATER(cuEventDestroy_v2, cuEventDestroy, 4000, none, same) \
    FIRST(cuEventElapsedTime, 2000, none) LATER(cuEventElapsedTime_v2, cuEventElapsedTime, 12080, none, same) \
    /* external memory and semaphores */ \
    FIRST(cuImportExternalMemory, 10000, none) FIRST(cuExternalMemoryGetMappedBuffer, 10000, none) \
    FIRST(cuExternalMemoryGetMappedMipmappedArray, 10000, none) FIRST(cuDestroyExternalMemory, 10000, none) \
    FIRST(cuImportExternalSemaphore, 10000, none) FIRST(cuSignalExternalSemaphoresAsync, 10000, ptsz) \
    FIRST(cuWaitExternalSemaphoresAsync, 10000, ptsz) FIRST(cuDestroyExternalSemaphore, 10000, none) \
    /* values in memory */ \
    FIRST(cuStreamWaitValue32, 8000, ptsz) LATER(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, ptsz, same) \
    FIRST(cuStreamWaitValue64, 9000, ptsz) LATER(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, ptsz, same) \
    FIRST(cuStreamWriteValue32, 8000, ptsz) LATER(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, ptsz, same) \
    FIRST(cuStreamWriteValue64, 9000, ptsz) LATER(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, ptsz, same) \
    FIRST(cuStreamBatchMemOp, 8000, ptsz) LATER(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, ptsz, same) \
    /* functions and launches */ \
    FIRST(cuFuncGetAttribute, 2020, none) FIRST(cuFuncSetAttribute, 9000, none) \
    FIRST(cuFuncSetCacheConfig, 3000, none) FIRST(cuFuncGetModule, 11000, none) FIRST(cuFuncGetName, 12030, none) \
    FIRST(cuFuncGetParamInfo, 12040, none) FIRST(cuFuncIsLoaded, 12040, none) FIRST(cuFuncLoad, 12040, none) \
    FIRST(cuLaunchKernel, 4000, ptsz) FIRST(cuLaunchKernelEx, 11060, ptsz) \
    FIRST(cuLaunchCooperativeKernel, 9000, ptsz) FIRST(cuLaunchCooperativeKernelMultiDevice, 9000, none) \
    FIRST(cuLaunchHostFunc, 10000, ptsz) \
    FIRST(cuFuncSetBlockShape, 2000, none) FIRST(cuFuncSetSharedSize, 2000, none) FIRST(cuParamSetSize, 2000, none) \
    FIRST(cuParamSeti, 2000, none) FIRST(cuParamSetf, 2000, none) FIRST(cuParamSetv, 2000, none) \
    FIRST(cuLaunch, 2000, none) FIRST(cuLaunchGrid, 2000, none) FIRST(cuLaunchGridAsync, 2000, none) \
    FIRST(cuParamSetTexRef, 2000, none) FIRST(cuFuncSetSharedMemConfig, 4020, none) \
    /* graphs */ \
    FIRST(cuGraphCreate, 10000, none) \
    FIRST(cuGraphAddKernelNode, 10000, none) LATER(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, none, other) \
    FIRST(cuGraphKernelNodeGetParams, 10000, none) \
    LATER(cuGraphKernelNodeGetParams_v2, cuGraphKernelNodeGetParams, 12000, none, other) \
    FIRST(cuGraphKernelNodeSetParams, 10000, none) \
    LATER(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000, none, other) \
    FIRST(cuGraphAddMemcpyNode, 10000, none) FIRST(cuGraphMemcpyNodeGetParams, 10000, none) \
    FIRST(cuGraphMemcpyNodeSetParams, 10000, none) FIRST(cuGraphAddMemsetNode, 10000, none) \
    FIRST(cuGraphMemsetNodeGetParams, 10000, none) FIRST(cuGraphMemsetNodeSetParams, 10000, none) \
    FIRST(cuGraphAddHostNode, 10000, none) FIRST(cuGraphHostNodeGetParams, 10000, none) \
    FIRST(cuGraphHostNodeSetParams, 10000, none) FIRST(cuGraphAddChildGraphNode, 10000, none) \
    FIRST(cuGraphChildGraphNodeGetGraph, 10000, none) FIRST(cuGraphAddEmptyNode, 10000, none) \
    FIRST(cuGraphAddEventRecordNode, 11010, none) FIRST(cuGraphEventRecordNodeGetEvent, 11010, none) \
    FIRST(cuGraphEventRecordNodeSetEvent, 11010, none) FIRST(cuGraphAddEventWaitNode, 11010, none) \
    FIRST(cuGraphEventWaitNodeGetEvent, 11010, none) FIRST(cuGraphEventWaitNodeSetEvent, 11010, none) \
    FIRST(cuGraphAddExternalSemaphoresSignalNode, 11020, none) \
    FIRST(cuGraphExternalSemaphoresSignalNodeGetParams, 11020, none) \
    FIRST(cuGraphExternalSemaphoresSignalNodeSetParams, 11020, none) \
    FIRST(cuGraphAddExternalSemaphoresWaitNode, 11020, none) \
    FIRST(cuGraphExternalSemaphoresWaitNodeGetParams, 11020, none) \
    FIRST(cuGraphExternalSemaphoresWaitNodeSetParams, 11020, none) FIRST(cuGraphAddBatchMemOpNode, 11070, none) \
    FIRST(cuGraphBatchMemOpNodeGetParams, 11070, none) FIRST(cuGraphBatchMemOpNodeSetParams, 11070, none) \
    FIRST(cuGraphExecBatchMemOpNodeSetParams, 11070, none) FIRST(cuGraphAddMemAllocNode, 11040, none) \
    FIRST(cuGraphMemAllocNodeGetParams, 11040, none) FIRST(cuGraphAddMemFreeNode, 11040, none) \
    FIRST(cuGraphMemFreeNodeGetParams, 11040, none) FIRST(cuDeviceGraphMemTrim, 11040, none) \
    FIRST(cuDeviceGetGraphMemAttribute, 11040, none) FIRST(cuDeviceSetGraphMemAttribute, 11040, none) \
    FIRST(cuGraphClone, 10000, none) FIRST(cuGraphNodeFindInClone, 10000, none) \
    FIRST(cuGraphNodeGetType, 10000, none) FIRST(cuGraphGetNodes, 10000, none) \
    FIRST(cuGraphGetRootNodes, 10000, none) \
    FIRST(cuGraphGetEdges, 10000, none) LATER(cuGraphGetEdges_v2, cuGraphGetEdges, 12030, none, other) \
    FIRST(cuGraphNodeGetDependencies, 10000, none) \
    LATER(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, 12030, none, other) \
    FIRST(cuGraphNodeGetDependentNodes, 10000, none) \
    LATER(cuGraphNodeGetDependentNodes_v2, cuGraphNodeGetDependentNodes, 12030, none, other) \
    FIRST(cuGraphAddDependencies, 10000, none) \
    LATER(cuGraphAddDependencies_v2, cuGraphAddDependencies, 12030, none, other) \
    FIRST(cuGraphRemoveDependencies, 10000, none) \
    LATER(cuGraphRemoveDependencies_v2, cuGraphRemoveDependencies, 12030, none, other) \
    FIRST(cuGraphDestroyNode, 10000, none) FIRST(cuGraphInstantiateWithFlags, 11040, none) \
    FIRST(cuGraphInstantiate, 10000, none) LATER(cuGraphInstantiate_v2, cuGraphInstantiate, 11000, none, same) \
    LATER(cuGraphInstantiateWithFlags, cuGraphInstantiate, 12000, none, other) \
    FIRST(cuGraphInstantiateWithParams, 12000, ptsz) FIRST(cuGraphExecGetFlags, 12000, none) \
    FIRST(cuGraphExecKernelNodeSetParams, 10010, none) \
    LATER(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams, 12000, none, other) \
    FIRST(cuGraphExecMemcpyNodeSetParams, 10020, none) FIRST(cuGraphExecMemsetNodeSetParams, 10020, none) \
    FIRST(cuGraphExecHostNodeSetParams, 10020, none) FIRST(cuGraphExecChildGraphNodeSetParams, 11010, none) \
    FIRST(cuGraphExecEventRecordNodeSetEvent, 11010, none) FIRST(cuGraphExecEventWaitNodeSetEvent, 11010, none) \
    FIRST(cuGraphExecExternalSemaphoresSignalNodeSetParams, 11020, none) \
    FIRST(cuGraphExecExternalSemaphoresWaitNodeSetParams, 11020, none) FIRST(cuGraphNodeSetEnabled, 11060, none) \
    FIRST(cuGraphNodeGetEnabled, 11060, none) FIRST(cuGraphUpload, 11010, ptsz) FIRST(cuGraphLaunch, 10000, ptsz) \
    FIRST(cuGraphExecDestroy, 10000, none) FIRST(cuGraphDestroy, 10000, none) \
    FIRST(cuGraphExecUpdate, 10020, none) LATER(cuGraphExecUpdate_v2, cuGraphExecUpdate, 12000, none, other) \
    FIRST(cuGraphKernelNodeCopyAttributes, 11000, none) FIRST(cuGraphKernelNodeGetAttribute, 11000, none) \
    FIRST(cuGraphKernelNodeSetAttribute, 11000, none) FIRST(cuGraphDebugDotPrint, 11030, none) \
    FIRST(cuUserObjectCreate, 11030, none) FIRST(cuUserObjectRetain, 11030, none) \
    FIRST(cuUserObjectRelease, 11030, none) FIRST(cuGraphRetainUserObject, 11030, none) \
    FIRST(cuGraphReleaseUserObject, 11030, none) \
    FIRST(cuGraphAddNode, 12020, none) LATER(cuGraphAddNode_v2, cuGraphAddNode, 12030, none, other) \
    FIRST(cuGraphNodeSetParams, 12020, none) FIRST(cuGraphExecNodeSetParams, 12020, none) \
    FIRST(cuGraphConditionalHandleCreate, 12030, none) \
    /* occupancy */ \
    FIRST(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, none) \
    FIRST(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, none) \
    FIRST(cuOccupancyMaxPotentialBlockSize, 6050, none) FIRST(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, none) \
    FIRST(cuOccupancyAvailableDynamicSMemPerBlock, 10020, none) \
    FIRST(cuOccupancyMaxPotentialClusterSize, 11070, none) FIRST(cuOccupancyMaxActiveClusters, 11070, none) \
    /* texture references */ \
    FIRST(cuTexRefSetArray, 2000, none) FIRST(cuTexRefSetMipmappedArray, 5000, none) \
    FIRST(cuTexRefSetAddress, 2000, none) LATER(cuTexRefSetAddress_v2, cuTexRefSetAddress, 3020, none, wide) \
    FIRST(cuTexRefSetAddress2D, 2020, none) LATER(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D, 3020, none, wide) \
    LATER(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D, 4010, none, wide) FIRST(cuTexRefSetFormat, 2000, none) \
    FIRST(cuTexRefSetAddressMode, 2000, none) FIRST(cuTexRefSetFilterMode, 2000, none) \
    FIRST(cuTexRefSetMipmapFilterMode, 5000, none) FIRST(cuTexRefSetMipmapLevelBias, 5000, none) \
    FIRST(cuTexRefSetMipmapLevelClamp, 5000, none) FIRST(cuTexRefSetMaxAnisotropy, 5000, none) \
    FIRST(cuTexRefSetBorderColor, 8000, none) FIRST(cuTexRefSetFlags, 2000, none) \
    FIRST(cuTexRefGetAddress, 2000, none) LATER(cuTexRefGetAddress_v2, cuTexRefGetAddress, 3020, none, wide) \
    FIRST(cuTexRefGetArray, 2000, none) FIRST(cuTexRefGetMipmappedArray, 5000, none) \
    FIRST(cuTexRefGetAddressMode, 2000, none) FIRST(cuTexRefGetFilterMode, 2000, none) \
    FIRST(cuTexRefGetFormat, 2000, none) FIRST(cuTexRefGetMipmapFilterMode, 5000, none) \
    FIRST(cuTexRefGetMipmapLevelBias, 5000, none) FIRST(cuTexRefGetMipmapLevelClamp, 5000, none) \
    FIRST(cuTexRefGetMaxAnisotropy, 5000, none) FIRST(cuTexRefGetBorderColor, 8000, none) \
    FIRST(cuTexRefGetFlags, 2000, none) FIRST(cuTexRefCreate, 2000, none) FIRST(cuTexRefDestroy, 2000, none) \
    /* surface references */ \
    FIRST(cuSurfRefSetArray, 3000, none) FIRST(cuSurfRefGetArray, 3000, none) \
    /* textures */ \
    FIRST(cuTexObjectCreate, 5000, none) FIRST(cuTexObjectDestroy, 5000, none) \
    FIRST(cuTexObjectGetResourceDesc, 5000, none) FIRST(cuTexObjectGetTextureDesc, 5000, none) \
    FIRST(cuTexObjectGetResourceViewDesc, 5000, none) \
    /* surfaces */ \
    FIRST(cuSurfObjectCreate, 5000, none) FIRST(cuSurfObjectDestroy, 5000, none) \
    FIRST(cuSurfObjectGetResourceDesc, 5000, none) \
    /* tensor maps */ \
    FIRST(cuTensorMapEncodeTiled, 12000, none) FIRST(cuTensorMapEncodeIm2col, 12000, none) \
    FIRST(cuTensorMapEncodeIm2colWide, 12080, none) FIRST(cuTensorMapReplaceAddress, 12000, none) \
    /* peers */ \
    FIRST(cuDeviceCanAccessPeer, 4000, none) FIRST(cuCtxEnablePeerAccess, 4000, none) \
    FIRST(cuCtxDisablePeerAccess, 4000, none) FIRST(cuDeviceGetP2PAttribute, 8000, none) \
    FIRST(cuDeviceGetP2PAtomicCapabilities, 13000, none) \
    /* graphics */ \
    FIRST(cuGraphicsUnregisterResource, 3000, none) FIRST(cuGraphicsSubResourceGetMappedArray, 3000, none) \
    FIRST(cuGraphicsResourceGetMappedMipmappedArray, 5000, none) \
    FIRST(cuGraphicsResourceGetMappedPointer, 3000, none) \
    LATER(cuGraphicsResourceGetMappedPointer_v2, cuGraphicsResourceGetMappedPointer, 3020, none, wide) \
    FIRST(cuGraphicsResourceSetMapFlags, 3000, none) \
    LATER(cuGraphicsResourceSetMapFlags_v2, cuGraphicsResourceSetMapFlags, 6050, none, same) \
    FIRST(cuGraphicsMapResources, 3000, ptsz) FIRST(cuGraphicsUnmapResources, 3000, ptsz) \
    /* entry points */ \
    FIRST(cuGetProcAddress, 11030, none) LATER(cuGetProcAddress_v2, cuGetProcAddress, 12000, none, other) \
    /* core dumps */ \
    FIRST(cuCoredumpGetAttribute, 12010, none) FIRST(cuCoredumpGetAttributeGlobal, 12010, none) \
    FIRST(cuCoredumpSetAttribute, 12010, none) FIRST(cuCoredumpSetAttributeGlobal, 12010, none) \
    FIRST(cuGetExportTable, 3000, none) \
    /* green contexts */ \
    FIRST(cuGreenCtxCreate, 12040, none) FIRST(cuGreenCtxDestroy, 12040, none) FIRST(cuCtxFromGreenCtx, 12040, none) \
    FIRST(cuDeviceGetDevResource, 12040, none) FIRST(cuCtxGetDevResource, 12040, none) \
    FIRST(cuGreenCtxGetDevResource, 12040, none) FIRST(cuDevSmResourceSplitByCount, 12040, none) \
    FIRST(cuDevResourceGenerateDesc, 12040, none) FIRST(cuGreenCtxRecordEvent, 12040, none) \
    FIRST(cuGreenCtxWaitEvent, 12040, none) FIRST(cuStreamGetGreenCtx, 12040, none) \
    FIRST(cuGreenCtxStreamCreate, 12050, none) FIRST(cuGreenCtxGetId, 12090, none) \
    /* logs of errors */ \
    FIRST(cuLogsRegisterCallback, 12090, none) FIRST(cuLogsUnregisterCallback, 12090, none) \
    FIRST(cuLogsCurrent, 12090, none) FIRST(cuLogsDumpToFile, 12090, none) FIRST(cuLogsDumpToMemory, 12090, none) \
    /* checkpoints */ \
    FIRST(cuCheckpointProcessGetRestoreThreadId, 12080, none) FIRST(cuCheckpointProcessGetState, 12080, none) \
    FIRST(cuCheckpointProcessLock, 12080, none) FIRST(cuCheckpointProcessCheckpoint, 12080, none) \
    FIRST(cuCheckpointProcessRestore, 12080, none) FIRST(cuCheckpointProcessUnlock, 12080, none) \
    /* the profiler: <cudaProfiler.h> */ \
    FIRST(cuProfilerInitialize, 4000, none) FIRST(cuProfilerStart, 4000, none) FIRST(cuProfilerStop, 4000, none)

// Those of <cudaGL.h>, <cudaEGL.h> and <cudaVDPAU.h>, which need the headers of these interfaces: no code of Barcuda
// declares them.
#define BARCUDA_GRAPHICS_API(FIRST, LATER) \
    FIRST(cuGraphicsGLRegisterBuffer, 3000, none) FIRST(cuGraphicsGLRegisterImage, 3000, none) \
    FIRST(cuGLGetDevices, 4010, none) LATER(cuGLGetDevices_v2, cuGLGetDevices, 6050, none, same) \
    FIRST(cuGLCtxCreate, 2000, none) LATER(cuGLCtxCreate_v2, cuGLCtxCreate, 3020, none, wide) \
    FIRST(cuGLInit, 2000, none) FIRST(cuGLRegisterBufferObject, 2000, none) \
    FIRST(cuGLMapBufferObject, 2000, none) LATER(cuGLMapBufferObject_v2, cuGLMapBufferObject, 3020, ptds, wide) \
    FIRST(cuGLUnmapBufferObject, 2000, none) FIRST(cuGLUnregisterBufferObject, 2000, none) \
    FIRST(cuGLSetBufferObjectMapFlags, 2030, none) FIRST(cuGLMapBufferObjectAsync, 2030, none) \
    LATER(cuGLMapBufferObjectAsync_v2, cuGLMapBufferObjectAsync, 3020, ptsz, wide) \
    FIRST(cuGLUnmapBufferObjectAsync, 2030, none) \
    FIRST(cuGraphicsEGLRegisterImage, 7000, none) FIRST(cuEGLStreamConsumerConnect, 7000, none) \
    FIRST(cuEGLStreamConsumerConnectWithFlags, 8000, none) FIRST(cuEGLStreamConsumerDisconnect, 7000, none) \
    FIRST(cuEGLStreamConsumerAcquireFrame, 7000, none) FIRST(cuEGLStreamConsumerReleaseFrame, 7000, none) \
    FIRST(cuEGLStreamProducerConnect, 7000, none) FIRST(cuEGLStreamProducerDisconnect, 7000, none) \
    FIRST(cuEGLStreamProducerPresentFrame, 7000, none) FIRST(cuEGLStreamProducerReturnFrame, 7000, none) \
    FIRST(cuGraphicsResourceGetMappedEglFrame, 7000, none) FIRST(cuEventCreateFromEGLSync, 9000, none) \
    FIRST(cuVDPAUGetDevice, 3010, none) \
    FIRST(cuVDPAUCtxCreate, 3010, none) LATER(cuVDPAUCtxCreate_v2, cuVDPAUCtxCreate, 3020, none, same) \
    FIRST(cuGraphicsVDPAURegisterVideoSurface, 3010, none) FIRST(cuGraphicsVDPAURegisterOutputSurface, 3010, none)
// clang-format on

#ifdef _WIN32
#include "shm-device/cuda/direct3d.h"
#endif

namespace barcuda {

inline constexpr int api_version = 13000;  // the table knows CUDA up to this

enum class Twin { none, ptds, ptsz };
enum class Form { first, same, wide, other };

struct ApiSymbol {
    const char* symbol;
    const char* name;
    int since;
    Twin twin;
    Form form;
};

// The symbols of one name stand together, the oldest first.
inline constexpr ApiSymbol api_symbols[] = {
#define FIRST(name, since, twin) {#name, #name, since, Twin::twin, Form::first},
#define LATER(symbol, name, since, twin, form) {#symbol, #name, since, Twin::twin, Form::form},
    BARCUDA_API(FIRST, LATER) BARCUDA_GRAPHICS_API(FIRST, LATER)
#ifdef _WIN32
        BARCUDA_DIRECT3D_API(FIRST, LATER)
#endif
#undef FIRST
#undef LATER
};

}  // namespace barcuda
