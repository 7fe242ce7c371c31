// SPDX-License-Identifier: Apache-2.0
// The runtime passes these structures to the driver as they are: their members must lie at the same places.
#include <gtest/gtest.h>

#include <cstddef>

#include "guest-allocator/runtime/runtime.h"

#define SAME_PLACE(Runtime, runtime_member, Driver, driver_member)                       \
    static_assert(offsetof(Runtime, runtime_member) == offsetof(Driver, driver_member)); \
    static_assert(sizeof(Runtime::runtime_member) == sizeof(Driver::driver_member))
#define SAME_NAME(Runtime, Driver, member) SAME_PLACE(Runtime, member, Driver, member)

SAME_NAME(cudaMemLocation, CUmemLocation, type);
SAME_NAME(cudaMemLocation, CUmemLocation, id);
SAME_NAME(cudaMemAccessDesc, CUmemAccessDesc, location);
SAME_NAME(cudaMemAccessDesc, CUmemAccessDesc, flags);
SAME_NAME(cudaMemPoolProps, CUmemPoolProps, allocType);
SAME_NAME(cudaMemPoolProps, CUmemPoolProps, handleTypes);
SAME_NAME(cudaMemPoolProps, CUmemPoolProps, location);
SAME_NAME(cudaMemPoolProps, CUmemPoolProps, maxSize);
SAME_NAME(cudaMemPoolProps, CUmemPoolProps, usage);

SAME_NAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, poolProps);
SAME_NAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, accessDescs);
SAME_NAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, accessDescCount);
SAME_NAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, bytesize);
SAME_NAME(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS, dptr);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, dst);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, pitch);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, value);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, width);
SAME_NAME(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, height);
SAME_NAME(cudaHostNodeParams, CUDA_HOST_NODE_PARAMS, fn);
SAME_NAME(cudaHostNodeParams, CUDA_HOST_NODE_PARAMS, userData);
SAME_NAME(cudaGraphEdgeData, CUgraphEdgeData, from_port);
SAME_NAME(cudaGraphEdgeData, CUgraphEdgeData, to_port);
SAME_NAME(cudaGraphEdgeData, CUgraphEdgeData, type);
SAME_PLACE(cudaLaunchAttribute, id, CUlaunchAttribute, id);
SAME_PLACE(cudaLaunchAttribute, val, CUlaunchAttribute, value);
SAME_NAME(cudaLaunchAttributeValue, CUlaunchAttributeValue, accessPolicyWindow);
SAME_NAME(cudaLaunchAttributeValue, CUlaunchAttributeValue, clusterDim);
SAME_NAME(cudaLaunchAttributeValue, CUlaunchAttributeValue, programmaticEvent);
SAME_NAME(cudaLaunchAttributeValue, CUlaunchAttributeValue, priority);

SAME_NAME(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES, tileExtent);
SAME_NAME(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES, miptailFirstLevel);
SAME_NAME(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES, miptailSize);
SAME_NAME(cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS, size);
SAME_NAME(cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS, alignment);
SAME_NAME(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC, format);
SAME_NAME(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC, width);
SAME_NAME(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC, firstMipmapLevel);
SAME_NAME(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC, lastLayer);
SAME_NAME(cudaMemcpyAttributes, CUmemcpyAttributes, srcAccessOrder);
SAME_NAME(cudaMemcpyAttributes, CUmemcpyAttributes, srcLocHint);
SAME_NAME(cudaMemcpyAttributes, CUmemcpyAttributes, dstLocHint);
SAME_NAME(cudaMemcpyAttributes, CUmemcpyAttributes, flags);
SAME_NAME(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP, src);
SAME_NAME(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP, dst);
SAME_NAME(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP, extent);
SAME_NAME(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP, srcAccessOrder);
SAME_NAME(cudaMemcpy3DOperand, CUmemcpy3DOperand, type);
SAME_NAME(cudaMemcpy3DOperand, CUmemcpy3DOperand, op);

SAME_NAME(cudaExternalMemoryHandleDesc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle);
SAME_NAME(cudaExternalMemoryHandleDesc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME_NAME(cudaExternalSemaphoreHandleDesc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, handle);
SAME_NAME(cudaExternalSemaphoreHandleDesc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, flags);
SAME_NAME(cudaExternalSemaphoreSignalParams, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, flags);
SAME_NAME(cudaExternalSemaphoreWaitParams, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, flags);
SAME_NAME(cudaExternalSemaphoreSignalNodeParams, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, paramsArray);
SAME_NAME(cudaExternalSemaphoreWaitNodeParams, CUDA_EXT_SEM_WAIT_NODE_PARAMS, numExtSems);

// A node's parameters are copied whole except for kernels and copies.
SAME_NAME(cudaGraphNodeParams, CUgraphNodeParams, type);
SAME_NAME(cudaGraphNodeParams, CUgraphNodeParams, reserved1);
SAME_NAME(cudaMemsetParamsV2, CUDA_MEMSET_NODE_PARAMS_v2, dst);
SAME_NAME(cudaMemsetParamsV2, CUDA_MEMSET_NODE_PARAMS_v2, height);
SAME_NAME(cudaMemAllocNodeParamsV2, CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, handle);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, type);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, size);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out);

// Enumerations are passed on by value.
#define SAME_VALUE(runtime, driver) static_assert(static_cast<int>(runtime) == static_cast<int>(driver))
SAME_VALUE(cudaMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(cudaMemLocationTypeHost, CU_MEM_LOCATION_TYPE_HOST);
SAME_VALUE(cudaMemLocationTypeHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME_VALUE(cudaMemLocationTypeHostNumaCurrent, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
SAME_VALUE(cudaMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(cudaMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(cudaMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(cudaMemPoolReuseFollowEventDependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME_VALUE(cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME_VALUE(cudaMemAdviseSetReadMostly, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME_VALUE(cudaMemAdviseUnsetAccessedBy, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
SAME_VALUE(cudaMemRangeAttributeReadMostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY);
SAME_VALUE(cudaMemRangeAttributeLastPrefetchLocationId, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID);
SAME_VALUE(cudaLimitStackSize, CU_LIMIT_STACK_SIZE);
SAME_VALUE(cudaLimitPrintfFifoSize, CU_LIMIT_PRINTF_FIFO_SIZE);
SAME_VALUE(cudaLimitMallocHeapSize, CU_LIMIT_MALLOC_HEAP_SIZE);
SAME_VALUE(cudaLimitPersistingL2CacheSize, CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
SAME_VALUE(cudaFuncCachePreferEqual, CU_FUNC_CACHE_PREFER_EQUAL);
SAME_VALUE(cudaFuncCachePreferL1, CU_FUNC_CACHE_PREFER_L1);
SAME_VALUE(cudaDeviceScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
SAME_VALUE(cudaDeviceLmemResizeToMax, CU_CTX_LMEM_RESIZE_TO_MAX);
SAME_VALUE(cudaDevP2PAttrNativeAtomicSupported, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME_VALUE(cudaDevP2PAttrCudaArrayAccessSupported, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
SAME_VALUE(cudaDevAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(cudaDevAttrMaxTexture1DMipmappedWidth, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
SAME_VALUE(cudaDevAttrCooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME_VALUE(cudaDevAttrMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_VALUE(cudaDevAttrHostNumaMultinodeIpcSupported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED);
SAME_VALUE(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME_VALUE(cudaStreamSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
SAME_VALUE(cudaLaunchAttributeCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(cudaLaunchAttributeClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(cudaLaunchAttributeProgrammaticStreamSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_VALUE(cudaLaunchAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME_VALUE(cudaLaunchAttributePreferredSharedMemoryCarveout, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_VALUE(cudaGraphNodeTypeEventRecord, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME_VALUE(cudaGraphInstantiateFlagAutoFreeOnLaunch, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
SAME_VALUE(cudaGraphExecUpdateErrorTopologyChanged, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
SAME_VALUE(cudaGraphCondTypeWhile, CU_GRAPH_COND_TYPE_WHILE);
SAME_VALUE(cudaGraphMemAttrReservedMemHigh, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH);
SAME_VALUE(cudaUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME_VALUE(cudaEventWaitExternal, CU_EVENT_WAIT_EXTERNAL);
SAME_VALUE(cudaOccupancyDisableCachingOverride, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE);
SAME_VALUE(cudaJitMaxRegisters, CU_JIT_MAX_REGISTERS);
SAME_VALUE(cudaJitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(cudaJitOptimizationLevel, CU_JIT_OPTIMIZATION_LEVEL);
SAME_VALUE(cudaLibraryBinaryIsPreserved, CU_LIBRARY_BINARY_IS_PRESERVED);
SAME_VALUE(cudaResViewFormatUnsignedBlockCompressed7, CU_RES_VIEW_FORMAT_UNSIGNED_BC7);
SAME_VALUE(cudaIpcMemLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

TEST(RuntimeLayout, StructuresAndValuesThatCrossToTheDriverUntranslatedAreItsOwn) {
    SUCCEED() << "checked by the compiler";
}
