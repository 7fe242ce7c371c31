// entry_points.h: every function of the driver API that is done, once. cuGetProcAddress, the twins for the per-thread
// default stream and the plain names are made of this list: a new function is a row here and its body in a *_calls.cc
// file.
//
//   ENTRY(symbol, version)    a function and the CUDA version that it came with
//   STREAM(symbol, version, suffix, suffixed version, parameters)
//                             one with a stream, and its twin symbol_ptsz or symbol_ptds
//   ALIAS(name, symbol, parameters)
//                             the name without a version, for programs that look symbols up by themselves
#pragma once

// clang-format off
#define BARCUDA_SOFT_ENTRY_POINTS(ENTRY, STREAM) \
    /* array_calls.cc */ \
    ENTRY(cuArrayCreate_v2, 3020) \
    ENTRY(cuArray3DCreate_v2, 3020) \
    ENTRY(cuArrayDestroy, 2000) \
    ENTRY(cuArrayGetDescriptor_v2, 3020) \
    ENTRY(cuArray3DGetDescriptor_v2, 3020) \
    ENTRY(cuArrayGetMemoryRequirements, 11060) \
    ENTRY(cuMipmappedArrayCreate, 5000) \
    ENTRY(cuMipmappedArrayGetLevel, 5000) \
    ENTRY(cuMipmappedArrayDestroy, 5000) \
    ENTRY(cuMipmappedArrayGetMemoryRequirements, 11060) \
    ENTRY(cuArrayGetPlane, 11020) \
    ENTRY(cuArrayGetSparseProperties, 11010) \
    ENTRY(cuMipmappedArrayGetSparseProperties, 11010) \
    /* capture.cc */ \
    STREAM(cuStreamBeginCapture_v2, 10010, ptsz, 10010, 2) \
    STREAM(cuStreamBeginCapture, 10000, ptsz, 10000, 1) \
    STREAM(cuStreamBeginCaptureToGraph, 12030, ptsz, 12030, 6) \
    STREAM(cuStreamEndCapture, 10000, ptsz, 10000, 2) \
    STREAM(cuStreamIsCapturing, 10000, ptsz, 10000, 2) \
    STREAM(cuStreamGetCaptureInfo, 10010, ptsz, 10010, 3) \
    STREAM(cuStreamGetCaptureInfo_v2, 11030, ptsz, 11030, 6) \
    STREAM(cuStreamGetCaptureInfo_v3, 12030, ptsz, 12030, 7) \
    STREAM(cuStreamUpdateCaptureDependencies, 11030, ptsz, 11030, 4) \
    STREAM(cuStreamUpdateCaptureDependencies_v2, 12030, ptsz, 12030, 5) \
    ENTRY(cuThreadExchangeStreamCaptureMode, 10010) \
    /* context_calls.cc */ \
    ENTRY(cuDevicePrimaryCtxRetain, 7000) \
    ENTRY(cuDevicePrimaryCtxRelease_v2, 11000) \
    ENTRY(cuDevicePrimaryCtxReset_v2, 11000) \
    ENTRY(cuDevicePrimaryCtxSetFlags_v2, 11000) \
    ENTRY(cuDevicePrimaryCtxGetState, 7000) \
    ENTRY(cuCtxCreate_v2, 3020) \
    ENTRY(cuCtxCreate_v3, 11040) \
    ENTRY(cuCtxCreate_v4, 12050) \
    ENTRY(cuCtxDestroy_v2, 4000) \
    ENTRY(cuCtxDetach, 2000) \
    ENTRY(cuCtxAttach, 2000) \
    ENTRY(cuCtxPushCurrent_v2, 4000) \
    ENTRY(cuCtxPopCurrent_v2, 4000) \
    ENTRY(cuCtxSetCurrent, 4000) \
    ENTRY(cuCtxGetCurrent, 4000) \
    ENTRY(cuCtxGetDevice, 2000) \
    ENTRY(cuCtxGetDevice_v2, 13000) \
    ENTRY(cuCtxGetFlags, 7000) \
    ENTRY(cuCtxSetFlags, 12010) \
    ENTRY(cuCtxGetId, 12000) \
    ENTRY(cuCtxGetApiVersion, 3020) \
    ENTRY(cuCtxSynchronize, 2000) \
    ENTRY(cuCtxSynchronize_v2, 13000) \
    ENTRY(cuCtxSetLimit, 3010) \
    ENTRY(cuCtxGetLimit, 3010) \
    ENTRY(cuCtxGetCacheConfig, 3020) \
    ENTRY(cuCtxSetCacheConfig, 3020) \
    ENTRY(cuCtxGetSharedMemConfig, 4020) \
    ENTRY(cuCtxSetSharedMemConfig, 4020) \
    ENTRY(cuCtxGetStreamPriorityRange, 5050) \
    ENTRY(cuCtxResetPersistingL2Cache, 11000) \
    ENTRY(cuCtxEnablePeerAccess, 4000) \
    ENTRY(cuCtxDisablePeerAccess, 4000) \
    /* copy_calls.cc */ \
    STREAM(cuMemcpy, 4000, ptds, 7000, 3) \
    STREAM(cuMemcpyAsync, 4000, ptsz, 7000, 4) \
    STREAM(cuMemcpyHtoD_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemcpyHtoDAsync_v2, 3020, ptsz, 7000, 4) \
    STREAM(cuMemcpyDtoH_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemcpyDtoHAsync_v2, 3020, ptsz, 7000, 4) \
    STREAM(cuMemcpyDtoD_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemcpyDtoDAsync_v2, 3020, ptsz, 7000, 4) \
    STREAM(cuMemcpyPeer, 4000, ptds, 7000, 5) \
    STREAM(cuMemcpyPeerAsync, 4000, ptsz, 7000, 6) \
    STREAM(cuMemcpyBatchAsync_v2, 13000, ptsz, 13000, 8) \
    STREAM(cuMemcpyBatchAsync, 12080, ptsz, 12080, 9) \
    STREAM(cuMemcpy2D_v2, 3020, ptds, 7000, 1) \
    STREAM(cuMemcpy2DUnaligned_v2, 3020, ptds, 7000, 1) \
    STREAM(cuMemcpy2DAsync_v2, 3020, ptsz, 7000, 2) \
    STREAM(cuMemcpy3D_v2, 3020, ptds, 7000, 1) \
    STREAM(cuMemcpy3DAsync_v2, 3020, ptsz, 7000, 2) \
    STREAM(cuMemcpy3DPeer, 4000, ptds, 7000, 1) \
    STREAM(cuMemcpy3DPeerAsync, 4000, ptsz, 7000, 2) \
    STREAM(cuMemcpyDtoA_v2, 3020, ptds, 7000, 4) \
    STREAM(cuMemcpyAtoD_v2, 3020, ptds, 7000, 4) \
    STREAM(cuMemcpyHtoA_v2, 3020, ptds, 7000, 4) \
    STREAM(cuMemcpyAtoH_v2, 3020, ptds, 7000, 4) \
    STREAM(cuMemcpyAtoA_v2, 3020, ptds, 7000, 5) \
    STREAM(cuMemcpyHtoAAsync_v2, 3020, ptsz, 7000, 5) \
    STREAM(cuMemcpyAtoHAsync_v2, 3020, ptsz, 7000, 5) \
    STREAM(cuMemsetD8_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemsetD16_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemsetD32_v2, 3020, ptds, 7000, 3) \
    STREAM(cuMemsetD2D8_v2, 3020, ptds, 7000, 5) \
    STREAM(cuMemsetD2D16_v2, 3020, ptds, 7000, 5) \
    STREAM(cuMemsetD2D32_v2, 3020, ptds, 7000, 5) \
    STREAM(cuMemsetD8Async, 3020, ptsz, 7000, 4) \
    STREAM(cuMemsetD16Async, 3020, ptsz, 7000, 4) \
    STREAM(cuMemsetD32Async, 3020, ptsz, 7000, 4) \
    STREAM(cuMemsetD2D8Async, 3020, ptsz, 7000, 6) \
    STREAM(cuMemsetD2D16Async, 3020, ptsz, 7000, 6) \
    STREAM(cuMemsetD2D32Async, 3020, ptsz, 7000, 6) \
    /* device_calls.cc */ \
    ENTRY(cuInit, 2000) \
    ENTRY(cuDriverGetVersion, 2020) \
    ENTRY(cuDeviceGetCount, 2000) \
    ENTRY(cuDeviceGet, 2000) \
    ENTRY(cuDeviceGetName, 2000) \
    ENTRY(cuDeviceGetUuid, 9020) \
    ENTRY(cuDeviceGetUuid_v2, 11040) \
    ENTRY(cuDeviceTotalMem_v2, 3020) \
    ENTRY(cuDeviceGetAttribute, 2000) \
    ENTRY(cuDeviceGetProperties, 2000) \
    ENTRY(cuDeviceComputeCapability, 2000) \
    ENTRY(cuDeviceGetPCIBusId, 4010) \
    ENTRY(cuDeviceGetByPCIBusId, 4010) \
    ENTRY(cuDeviceCanAccessPeer, 4000) \
    ENTRY(cuDeviceGetP2PAttribute, 8000) \
    ENTRY(cuDeviceGetTexture1DLinearMaxWidth, 11010) \
    ENTRY(cuDeviceGetExecAffinitySupport, 11040) \
    ENTRY(cuFlushGPUDirectRDMAWrites, 11030) \
    /* error_calls.cc */ \
    ENTRY(cuGetErrorName, 6000) \
    ENTRY(cuGetErrorString, 6000) \
    /* event_calls.cc */ \
    ENTRY(cuEventCreate, 2000) \
    ENTRY(cuEventDestroy_v2, 4000) \
    STREAM(cuEventRecord, 2000, ptsz, 7000, 2) \
    STREAM(cuEventRecordWithFlags, 11010, ptsz, 11010, 3) \
    ENTRY(cuEventQuery, 2000) \
    ENTRY(cuEventSynchronize, 2000) \
    ENTRY(cuEventElapsedTime_v2, 12080) \
    ENTRY(cuEventElapsedTime, 2000) \
    STREAM(cuStreamWaitEvent, 3020, ptsz, 7000, 3) \
    /* graph_calls.cc */ \
    ENTRY(cuGraphCreate, 10000) \
    ENTRY(cuGraphDestroy, 10000) \
    ENTRY(cuGraphClone, 10000) \
    ENTRY(cuGraphNodeFindInClone, 10000) \
    ENTRY(cuGraphNodeGetType, 10000) \
    ENTRY(cuGraphDestroyNode, 10000) \
    ENTRY(cuGraphGetNodes, 10000) \
    ENTRY(cuGraphGetRootNodes, 10000) \
    ENTRY(cuGraphGetEdges_v2, 12030) \
    ENTRY(cuGraphGetEdges, 10000) \
    ENTRY(cuGraphNodeGetDependencies_v2, 12030) \
    ENTRY(cuGraphNodeGetDependencies, 10000) \
    ENTRY(cuGraphNodeGetDependentNodes_v2, 12030) \
    ENTRY(cuGraphNodeGetDependentNodes, 10000) \
    ENTRY(cuGraphAddDependencies_v2, 12030) \
    ENTRY(cuGraphAddDependencies, 10000) \
    ENTRY(cuGraphRemoveDependencies_v2, 12030) \
    ENTRY(cuGraphRemoveDependencies, 10000) \
    ENTRY(cuGraphDebugDotPrint, 11030) \
    ENTRY(cuGraphInstantiateWithFlags, 11040) \
    ENTRY(cuGraphInstantiate, 10000) \
    ENTRY(cuGraphInstantiate_v2, 11000) \
    STREAM(cuGraphInstantiateWithParams, 12000, ptsz, 12000, 3) \
    ENTRY(cuGraphExecDestroy, 10000) \
    ENTRY(cuGraphExecGetFlags, 12000) \
    STREAM(cuGraphUpload, 11010, ptsz, 11010, 2) \
    STREAM(cuGraphLaunch, 10000, ptsz, 10000, 2) \
    ENTRY(cuGraphNodeSetEnabled, 11060) \
    ENTRY(cuGraphNodeGetEnabled, 11060) \
    ENTRY(cuGraphExecUpdate_v2, 12000) \
    ENTRY(cuGraphExecUpdate, 10020) \
    ENTRY(cuUserObjectCreate, 11030) \
    ENTRY(cuUserObjectRetain, 11030) \
    ENTRY(cuUserObjectRelease, 11030) \
    ENTRY(cuGraphRetainUserObject, 11030) \
    ENTRY(cuGraphReleaseUserObject, 11030) \
    /* graph_memory_calls.cc */ \
    ENTRY(cuGraphAddMemAllocNode, 11040) \
    ENTRY(cuGraphMemAllocNodeGetParams, 11040) \
    ENTRY(cuGraphAddMemFreeNode, 11040) \
    ENTRY(cuGraphMemFreeNodeGetParams, 11040) \
    ENTRY(cuDeviceGetGraphMemAttribute, 11040) \
    ENTRY(cuDeviceSetGraphMemAttribute, 11040) \
    ENTRY(cuDeviceGraphMemTrim, 11040) \
    /* graph_node_calls.cc */ \
    ENTRY(cuGraphAddKernelNode_v2, 12000) \
    ENTRY(cuGraphAddKernelNode, 10000) \
    ENTRY(cuGraphAddMemcpyNode, 10000) \
    ENTRY(cuGraphAddMemsetNode, 10000) \
    ENTRY(cuGraphAddHostNode, 10000) \
    ENTRY(cuGraphAddChildGraphNode, 10000) \
    ENTRY(cuGraphAddEmptyNode, 10000) \
    ENTRY(cuGraphAddEventRecordNode, 11010) \
    ENTRY(cuGraphAddEventWaitNode, 11010) \
    ENTRY(cuGraphAddBatchMemOpNode, 11070) \
    ENTRY(cuGraphAddNode, 12020) \
    ENTRY(cuGraphAddNode_v2, 12030) \
    ENTRY(cuGraphKernelNodeGetParams_v2, 12000) \
    ENTRY(cuGraphKernelNodeGetParams, 10000) \
    ENTRY(cuGraphKernelNodeSetParams_v2, 12000) \
    ENTRY(cuGraphKernelNodeSetParams, 10000) \
    ENTRY(cuGraphExecKernelNodeSetParams_v2, 12000) \
    ENTRY(cuGraphExecKernelNodeSetParams, 10010) \
    ENTRY(cuGraphKernelNodeGetAttribute, 11000) \
    ENTRY(cuGraphKernelNodeSetAttribute, 11000) \
    ENTRY(cuGraphKernelNodeCopyAttributes, 11000) \
    ENTRY(cuGraphMemcpyNodeGetParams, 10000) \
    ENTRY(cuGraphMemcpyNodeSetParams, 10000) \
    ENTRY(cuGraphExecMemcpyNodeSetParams, 10020) \
    ENTRY(cuGraphMemsetNodeGetParams, 10000) \
    ENTRY(cuGraphMemsetNodeSetParams, 10000) \
    ENTRY(cuGraphExecMemsetNodeSetParams, 10020) \
    ENTRY(cuGraphHostNodeGetParams, 10000) \
    ENTRY(cuGraphHostNodeSetParams, 10000) \
    ENTRY(cuGraphExecHostNodeSetParams, 10020) \
    ENTRY(cuGraphChildGraphNodeGetGraph, 10000) \
    ENTRY(cuGraphExecChildGraphNodeSetParams, 11010) \
    ENTRY(cuGraphEventRecordNodeGetEvent, 11010) \
    ENTRY(cuGraphEventRecordNodeSetEvent, 11010) \
    ENTRY(cuGraphExecEventRecordNodeSetEvent, 11010) \
    ENTRY(cuGraphEventWaitNodeGetEvent, 11010) \
    ENTRY(cuGraphEventWaitNodeSetEvent, 11010) \
    ENTRY(cuGraphExecEventWaitNodeSetEvent, 11010) \
    ENTRY(cuGraphBatchMemOpNodeGetParams, 11070) \
    ENTRY(cuGraphBatchMemOpNodeSetParams, 11070) \
    ENTRY(cuGraphExecBatchMemOpNodeSetParams, 11070) \
    ENTRY(cuGraphNodeSetParams, 12020) \
    ENTRY(cuGraphExecNodeSetParams, 12020) \
    /* library_calls.cc */ \
    ENTRY(cuLibraryLoadData, 12000) \
    ENTRY(cuLibraryLoadFromFile, 12000) \
    ENTRY(cuLibraryUnload, 12000) \
    ENTRY(cuLibraryGetKernel, 12000) \
    ENTRY(cuLibraryGetKernelCount, 12040) \
    ENTRY(cuLibraryEnumerateKernels, 12040) \
    ENTRY(cuLibraryGetModule, 12000) \
    ENTRY(cuLibraryGetGlobal, 12000) \
    ENTRY(cuLibraryGetManaged, 12000) \
    ENTRY(cuKernelGetFunction, 12000) \
    ENTRY(cuKernelGetLibrary, 12050) \
    ENTRY(cuKernelGetAttribute, 12000) \
    ENTRY(cuKernelSetAttribute, 12000) \
    ENTRY(cuKernelSetCacheConfig, 12000) \
    ENTRY(cuKernelGetName, 12030) \
    ENTRY(cuKernelGetParamInfo, 12040) \
    /* link_calls.cc */ \
    ENTRY(cuLinkCreate_v2, 6050) \
    ENTRY(cuLinkAddData_v2, 6050) \
    ENTRY(cuLinkAddFile_v2, 6050) \
    ENTRY(cuLinkComplete, 5050) \
    ENTRY(cuLinkDestroy, 5050) \
    /* memory_calls.cc */ \
    ENTRY(cuMemAlloc_v2, 3020) \
    ENTRY(cuMemAllocManaged, 6000) \
    ENTRY(cuMemAllocPitch_v2, 3020) \
    ENTRY(cuMemFree_v2, 3020) \
    ENTRY(cuMemGetInfo_v2, 3020) \
    ENTRY(cuMemGetAddressRange_v2, 3020) \
    ENTRY(cuMemAllocHost_v2, 3020) \
    ENTRY(cuMemHostAlloc, 2020) \
    ENTRY(cuMemFreeHost, 2000) \
    ENTRY(cuMemHostRegister_v2, 6050) \
    ENTRY(cuMemHostUnregister, 4000) \
    ENTRY(cuMemHostGetDevicePointer_v2, 3020) \
    ENTRY(cuMemHostGetFlags, 2030) \
    ENTRY(cuPointerGetAttribute, 4000) \
    ENTRY(cuPointerGetAttributes, 7000) \
    ENTRY(cuPointerSetAttribute, 6000) \
    STREAM(cuMemPrefetchAsync_v2, 12020, ptsz, 12020, 5) \
    STREAM(cuMemPrefetchAsync, 8000, ptsz, 8000, 4) \
    ENTRY(cuMemAdvise_v2, 12020) \
    ENTRY(cuMemAdvise, 8000) \
    STREAM(cuMemPrefetchBatchAsync, 13000, ptsz, 13000, 8) \
    STREAM(cuMemDiscardBatchAsync, 13000, ptsz, 13000, 5) \
    STREAM(cuMemDiscardAndPrefetchBatchAsync, 13000, ptsz, 13000, 8) \
    /* module_calls.cc */ \
    ENTRY(cuModuleLoad, 2000) \
    ENTRY(cuModuleLoadData, 2000) \
    ENTRY(cuModuleLoadDataEx, 2010) \
    ENTRY(cuModuleLoadFatBinary, 2000) \
    ENTRY(cuModuleUnload, 2000) \
    ENTRY(cuModuleGetFunction, 2000) \
    ENTRY(cuModuleGetFunctionCount, 12040) \
    ENTRY(cuModuleEnumerateFunctions, 12040) \
    ENTRY(cuModuleGetGlobal_v2, 3020) \
    ENTRY(cuModuleGetLoadingMode, 11070) \
    ENTRY(cuFuncGetAttribute, 2020) \
    ENTRY(cuFuncSetAttribute, 9000) \
    ENTRY(cuFuncSetCacheConfig, 3000) \
    ENTRY(cuFuncSetSharedMemConfig, 4020) \
    ENTRY(cuFuncGetModule, 11000) \
    ENTRY(cuFuncGetName, 12030) \
    ENTRY(cuFuncGetParamInfo, 12040) \
    ENTRY(cuFuncIsLoaded, 12040) \
    ENTRY(cuFuncLoad, 12040) \
    STREAM(cuLaunchKernel, 4000, ptsz, 7000, 11) \
    STREAM(cuLaunchKernelEx, 11060, ptsz, 11060, 4) \
    STREAM(cuLaunchCooperativeKernel, 9000, ptsz, 9000, 10) \
    /* occupancy_calls.cc */ \
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
    ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) \
    ENTRY(cuOccupancyMaxPotentialBlockSize, 6050) \
    ENTRY(cuOccupancyMaxPotentialBlockSizeWithFlags, 7000) \
    ENTRY(cuOccupancyAvailableDynamicSMemPerBlock, 10020) \
    ENTRY(cuOccupancyMaxPotentialClusterSize, 11070) \
    ENTRY(cuOccupancyMaxActiveClusters, 11070) \
    /* other_calls.cc */ \
    ENTRY(cuProfilerStart, 4000) \
    ENTRY(cuProfilerStop, 4000) \
    ENTRY(cuIpcGetMemHandle, 4010) \
    ENTRY(cuIpcOpenMemHandle_v2, 11000) \
    ENTRY(cuIpcCloseMemHandle, 4010) \
    ENTRY(cuIpcGetEventHandle, 4010) \
    ENTRY(cuIpcOpenEventHandle, 4010) \
    /* pool_calls.cc */ \
    STREAM(cuMemAllocAsync, 11020, ptsz, 11020, 3) \
    STREAM(cuMemAllocFromPoolAsync, 11020, ptsz, 11020, 4) \
    STREAM(cuMemFreeAsync, 11020, ptsz, 11020, 2) \
    ENTRY(cuDeviceGetDefaultMemPool, 11020) \
    ENTRY(cuDeviceGetMemPool, 11020) \
    ENTRY(cuDeviceSetMemPool, 11020) \
    ENTRY(cuMemGetDefaultMemPool, 13000) \
    ENTRY(cuMemGetMemPool, 13000) \
    ENTRY(cuMemSetMemPool, 13000) \
    ENTRY(cuMemPoolCreate, 11020) \
    ENTRY(cuMemPoolDestroy, 11020) \
    ENTRY(cuMemPoolTrimTo, 11020) \
    ENTRY(cuMemPoolSetAttribute, 11020) \
    ENTRY(cuMemPoolGetAttribute, 11020) \
    ENTRY(cuMemPoolSetAccess, 11020) \
    ENTRY(cuMemPoolGetAccess, 11020) \
    /* stream_calls.cc */ \
    ENTRY(cuStreamCreate, 2000) \
    ENTRY(cuStreamCreateWithPriority, 5050) \
    ENTRY(cuStreamDestroy_v2, 4000) \
    STREAM(cuStreamSynchronize, 2000, ptsz, 7000, 1) \
    STREAM(cuStreamQuery, 2000, ptsz, 7000, 1) \
    STREAM(cuLaunchHostFunc, 10000, ptsz, 10000, 3) \
    STREAM(cuStreamAddCallback, 5000, ptsz, 7000, 4) \
    STREAM(cuStreamGetPriority, 5050, ptsz, 7000, 2) \
    STREAM(cuStreamGetFlags, 5050, ptsz, 7000, 2) \
    STREAM(cuStreamGetId, 12000, ptsz, 12000, 2) \
    STREAM(cuStreamGetDevice, 12080, ptsz, 12080, 2) \
    STREAM(cuStreamGetCtx, 9020, ptsz, 9020, 2) \
    STREAM(cuStreamGetCtx_v2, 12050, ptsz, 12050, 3) \
    STREAM(cuStreamAttachMemAsync, 6000, ptsz, 7000, 4) \
    STREAM(cuStreamGetAttribute, 11000, ptsz, 11000, 3) \
    STREAM(cuStreamSetAttribute, 11000, ptsz, 11000, 3) \
    STREAM(cuStreamCopyAttributes, 11000, ptsz, 11000, 2) \
    /* texture_calls.cc */ \
    ENTRY(cuTexObjectCreate, 5000) \
    ENTRY(cuTexObjectDestroy, 5000) \
    ENTRY(cuTexObjectGetResourceDesc, 5000) \
    ENTRY(cuTexObjectGetTextureDesc, 5000) \
    ENTRY(cuTexObjectGetResourceViewDesc, 5000) \
    ENTRY(cuSurfObjectCreate, 5000) \
    ENTRY(cuSurfObjectDestroy, 5000) \
    ENTRY(cuSurfObjectGetResourceDesc, 5000) \
    /* values.cc */ \
    STREAM(cuStreamWaitValue32_v2, 11070, ptsz, 11070, 4) \
    STREAM(cuStreamWaitValue64_v2, 11070, ptsz, 11070, 4) \
    STREAM(cuStreamWriteValue32_v2, 11070, ptsz, 11070, 4) \
    STREAM(cuStreamWriteValue64_v2, 11070, ptsz, 11070, 4) \
    STREAM(cuStreamBatchMemOp_v2, 11070, ptsz, 11070, 4) \
    STREAM(cuStreamWaitValue32, 8000, ptsz, 8000, 4) \
    STREAM(cuStreamWaitValue64, 9000, ptsz, 9000, 4) \
    STREAM(cuStreamWriteValue32, 8000, ptsz, 8000, 4) \
    STREAM(cuStreamWriteValue64, 9000, ptsz, 9000, 4) \
    STREAM(cuStreamBatchMemOp, 8000, ptsz, 8000, 4) \
    /* vmm_calls.cc */ \
    ENTRY(cuMemGetAllocationGranularity, 10020) \
    ENTRY(cuMemAddressReserve, 10020) \
    ENTRY(cuMemAddressFree, 10020) \
    ENTRY(cuMemCreate, 10020) \
    ENTRY(cuMemRelease, 10020) \
    ENTRY(cuMemRetainAllocationHandle, 11000) \
    ENTRY(cuMemGetAllocationPropertiesFromHandle, 10020) \
    ENTRY(cuMemExportToShareableHandle, 10020) \
    ENTRY(cuMemImportFromShareableHandle, 10020) \
    ENTRY(cuMemMap, 10020) \
    ENTRY(cuMemUnmap, 10020) \
    ENTRY(cuMemSetAccess, 10020) \
    ENTRY(cuMemGetAccess, 10020)

#define BARCUDA_SOFT_ALIASES(ALIAS) \
    ALIAS(cuArray3DCreate, cuArray3DCreate_v2, 2) \
    ALIAS(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, 2) \
    ALIAS(cuArrayCreate, cuArrayCreate_v2, 2) \
    ALIAS(cuArrayGetDescriptor, cuArrayGetDescriptor_v2, 2) \
    ALIAS(cuCtxCreate, cuCtxCreate_v2, 3) \
    ALIAS(cuCtxDestroy, cuCtxDestroy_v2, 1) \
    ALIAS(cuCtxPopCurrent, cuCtxPopCurrent_v2, 1) \
    ALIAS(cuCtxPushCurrent, cuCtxPushCurrent_v2, 1) \
    ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 1) \
    ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 1) \
    ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 2) \
    ALIAS(cuDeviceTotalMem, cuDeviceTotalMem_v2, 2) \
    ALIAS(cuEventDestroy, cuEventDestroy_v2, 1) \
    ALIAS(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 3) \
    ALIAS(cuLinkAddData, cuLinkAddData_v2, 8) \
    ALIAS(cuLinkAddFile, cuLinkAddFile_v2, 6) \
    ALIAS(cuLinkCreate, cuLinkCreate_v2, 4) \
    ALIAS(cuMemAlloc, cuMemAlloc_v2, 2) \
    ALIAS(cuMemAllocHost, cuMemAllocHost_v2, 2) \
    ALIAS(cuMemAllocPitch, cuMemAllocPitch_v2, 5) \
    ALIAS(cuMemFree, cuMemFree_v2, 1) \
    ALIAS(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3) \
    ALIAS(cuMemGetInfo, cuMemGetInfo_v2, 2) \
    ALIAS(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3) \
    ALIAS(cuMemHostRegister, cuMemHostRegister_v2, 3) \
    ALIAS(cuMemcpy2D, cuMemcpy2D_v2, 1) \
    ALIAS(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 2) \
    ALIAS(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 1) \
    ALIAS(cuMemcpy3D, cuMemcpy3D_v2, 1) \
    ALIAS(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 2) \
    ALIAS(cuMemcpyAtoA, cuMemcpyAtoA_v2, 5) \
    ALIAS(cuMemcpyAtoD, cuMemcpyAtoD_v2, 4) \
    ALIAS(cuMemcpyAtoH, cuMemcpyAtoH_v2, 4) \
    ALIAS(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, 5) \
    ALIAS(cuMemcpyDtoA, cuMemcpyDtoA_v2, 4) \
    ALIAS(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3) \
    ALIAS(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 4) \
    ALIAS(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3) \
    ALIAS(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 4) \
    ALIAS(cuMemcpyHtoA, cuMemcpyHtoA_v2, 4) \
    ALIAS(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, 5) \
    ALIAS(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3) \
    ALIAS(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 4) \
    ALIAS(cuMemsetD16, cuMemsetD16_v2, 3) \
    ALIAS(cuMemsetD2D16, cuMemsetD2D16_v2, 5) \
    ALIAS(cuMemsetD2D32, cuMemsetD2D32_v2, 5) \
    ALIAS(cuMemsetD2D8, cuMemsetD2D8_v2, 5) \
    ALIAS(cuMemsetD32, cuMemsetD32_v2, 3) \
    ALIAS(cuMemsetD8, cuMemsetD8_v2, 3) \
    ALIAS(cuModuleGetGlobal, cuModuleGetGlobal_v2, 4) \
    ALIAS(cuStreamDestroy, cuStreamDestroy_v2, 1)
// clang-format on
