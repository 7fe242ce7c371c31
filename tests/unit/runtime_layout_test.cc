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

// A node's parameters are copied whole but for kernels and copies.
SAME_NAME(cudaGraphNodeParams, CUgraphNodeParams, type);
SAME_NAME(cudaGraphNodeParams, CUgraphNodeParams, reserved1);
SAME_NAME(cudaMemsetParamsV2, CUDA_MEMSET_NODE_PARAMS_v2, dst);
SAME_NAME(cudaMemsetParamsV2, CUDA_MEMSET_NODE_PARAMS_v2, height);
SAME_NAME(cudaMemAllocNodeParamsV2, CUDA_MEM_ALLOC_NODE_PARAMS_v2, dptr);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, handle);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, type);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, size);
SAME_NAME(cudaConditionalNodeParams, CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out);

TEST(RuntimeLayout, StructuresThatCrossToTheDriverUntranslatedHaveItsLayout) { SUCCEED() << "checked by the compiler"; }
