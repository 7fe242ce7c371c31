// SPDX-License-Identifier: Apache-2.0
// properties.cc: cudaGetDeviceProperties: CUDA 13's structure, member by member from the driver's attributes.
//
// Nothing is invented: a member without an attribute (what it described is gone from current devices) stays zero, as
// the structure's documentation has it. An attribute that an older driver does not know is zero too.
#include <cstring>

#include "guest-allocator/runtime/luid.h"
#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

namespace {

struct IntProperty {
    int cudaDeviceProp::*member;
    CUdevice_attribute attribute;
};
struct SizeProperty {
    size_t cudaDeviceProp::*member;
    CUdevice_attribute attribute;
};
struct FlagRow {
    unsigned cudaDeviceProp::*member;
    CUdevice_attribute attribute;
};
struct ArrayRow {  // consecutive elements of a member: x, y, z
    int* (*element)(cudaDeviceProp&);
    CUdevice_attribute attribute;
};

#define ROW(member, attribute) \
    { &cudaDeviceProp::member, CU_DEVICE_ATTRIBUTE_##attribute }
constexpr IntProperty int_rows[] = {
    ROW(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    ROW(warpSize, WARP_SIZE),
    ROW(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    ROW(major, COMPUTE_CAPABILITY_MAJOR),
    ROW(minor, COMPUTE_CAPABILITY_MINOR),
    ROW(multiProcessorCount, MULTIPROCESSOR_COUNT),
    ROW(integrated, INTEGRATED),
    ROW(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    ROW(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH),
    ROW(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
    ROW(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH),
    ROW(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH),
    ROW(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH),
    ROW(concurrentKernels, CONCURRENT_KERNELS),
    ROW(ECCEnabled, ECC_ENABLED),
    ROW(pciBusID, PCI_BUS_ID),
    ROW(pciDeviceID, PCI_DEVICE_ID),
    ROW(pciDomainID, PCI_DOMAIN_ID),
    ROW(tccDriver, TCC_DRIVER),
    ROW(asyncEngineCount, ASYNC_ENGINE_COUNT),
    ROW(unifiedAddressing, UNIFIED_ADDRESSING),
    ROW(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    ROW(l2CacheSize, L2_CACHE_SIZE),
    ROW(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
    ROW(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    ROW(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    ROW(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    ROW(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    ROW(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    ROW(managedMemory, MANAGED_MEMORY),
    ROW(isMultiGpuBoard, MULTI_GPU_BOARD),
    ROW(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
    ROW(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    ROW(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    ROW(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    ROW(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    ROW(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    ROW(cooperativeLaunch, COOPERATIVE_LAUNCH),
    ROW(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    ROW(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    ROW(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    ROW(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
    ROW(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    ROW(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
    ROW(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
    ROW(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    ROW(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    ROW(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
    ROW(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
    ROW(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    ROW(ipcEventSupported, IPC_EVENT_SUPPORTED),
    ROW(clusterLaunch, CLUSTER_LAUNCH),
    ROW(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
    ROW(deviceNumaConfig, NUMA_CONFIG),
    ROW(deviceNumaId, NUMA_ID),
    ROW(mpsEnabled, MPS_ENABLED),
    ROW(hostNumaId, HOST_NUMA_ID),
    ROW(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED),
};
constexpr SizeProperty size_rows[] = {
    ROW(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    ROW(memPitch, MAX_PITCH),
    ROW(totalConstMem, TOTAL_CONSTANT_MEMORY),
    ROW(textureAlignment, TEXTURE_ALIGNMENT),
    ROW(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    ROW(surfaceAlignment, SURFACE_ALIGNMENT),
    ROW(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    ROW(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    ROW(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
};
constexpr FlagRow flag_rows[] = {
    ROW(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    ROW(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES),
    ROW(gpuPciDeviceID, GPU_PCI_DEVICE_ID),
    ROW(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID),
};
#undef ROW
#define ROW(member, index, attribute)                                                               \
    {                                                                                               \
        [](cudaDeviceProp& p) -> int* { return &p.member[index]; }, CU_DEVICE_ATTRIBUTE_##attribute \
    }
constexpr ArrayRow array_rows[] = {
    ROW(maxThreadsDim, 0, MAX_BLOCK_DIM_X),
    ROW(maxThreadsDim, 1, MAX_BLOCK_DIM_Y),
    ROW(maxThreadsDim, 2, MAX_BLOCK_DIM_Z),
    ROW(maxGridSize, 0, MAX_GRID_DIM_X),
    ROW(maxGridSize, 1, MAX_GRID_DIM_Y),
    ROW(maxGridSize, 2, MAX_GRID_DIM_Z),
    ROW(maxTexture2D, 0, MAXIMUM_TEXTURE2D_WIDTH),
    ROW(maxTexture2D, 1, MAXIMUM_TEXTURE2D_HEIGHT),
    ROW(maxTexture2DMipmap, 0, MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
    ROW(maxTexture2DMipmap, 1, MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
    ROW(maxTexture2DLinear, 0, MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
    ROW(maxTexture2DLinear, 1, MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
    ROW(maxTexture2DLinear, 2, MAXIMUM_TEXTURE2D_LINEAR_PITCH),
    ROW(maxTexture2DGather, 0, MAXIMUM_TEXTURE2D_GATHER_WIDTH),
    ROW(maxTexture2DGather, 1, MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
    ROW(maxTexture3D, 0, MAXIMUM_TEXTURE3D_WIDTH),
    ROW(maxTexture3D, 1, MAXIMUM_TEXTURE3D_HEIGHT),
    ROW(maxTexture3D, 2, MAXIMUM_TEXTURE3D_DEPTH),
    ROW(maxTexture3DAlt, 0, MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
    ROW(maxTexture3DAlt, 1, MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
    ROW(maxTexture3DAlt, 2, MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
    ROW(maxTexture1DLayered, 0, MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
    ROW(maxTexture1DLayered, 1, MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
    ROW(maxTexture2DLayered, 0, MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
    ROW(maxTexture2DLayered, 1, MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
    ROW(maxTexture2DLayered, 2, MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
    ROW(maxTextureCubemapLayered, 0, MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
    ROW(maxTextureCubemapLayered, 1, MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
    ROW(maxSurface2D, 0, MAXIMUM_SURFACE2D_WIDTH),
    ROW(maxSurface2D, 1, MAXIMUM_SURFACE2D_HEIGHT),
    ROW(maxSurface3D, 0, MAXIMUM_SURFACE3D_WIDTH),
    ROW(maxSurface3D, 1, MAXIMUM_SURFACE3D_HEIGHT),
    ROW(maxSurface3D, 2, MAXIMUM_SURFACE3D_DEPTH),
    ROW(maxSurface1DLayered, 0, MAXIMUM_SURFACE1D_LAYERED_WIDTH),
    ROW(maxSurface1DLayered, 1, MAXIMUM_SURFACE1D_LAYERED_LAYERS),
    ROW(maxSurface2DLayered, 0, MAXIMUM_SURFACE2D_LAYERED_WIDTH),
    ROW(maxSurface2DLayered, 1, MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
    ROW(maxSurface2DLayered, 2, MAXIMUM_SURFACE2D_LAYERED_LAYERS),
    ROW(maxSurfaceCubemapLayered, 0, MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
    ROW(maxSurfaceCubemapLayered, 1, MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
};
#undef ROW

int attribute_of(CUdevice device, CUdevice_attribute attribute) {
    int value = 0;
    return cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

}  // namespace

API cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
    if (!properties) return record(cudaErrorInvalidValue);
    CUdevice device = 0;
    if (CUresult result = init()) return record(result);
    if (ordinal < 0 || ordinal >= device_count()) return record(cudaErrorInvalidDevice);
    if (CUresult result = cuDeviceGet(&device, ordinal)) return record(result);

    std::memset(properties, 0, sizeof(*properties));
    if (CUresult result = cuDeviceGetName(properties->name, sizeof(properties->name), device)) return record(result);
    if (CUresult result = cuDeviceTotalMem(&properties->totalGlobalMem, device)) return record(result);
    cuDeviceGetUuid(&properties->uuid, device);
    set_luid(*properties, device);
    for (const IntProperty& row : int_rows) properties->*row.member = attribute_of(device, row.attribute);
    for (const SizeProperty& row : size_rows) properties->*row.member = attribute_of(device, row.attribute);
    for (const FlagRow& row : flag_rows) properties->*row.member = attribute_of(device, row.attribute);
    for (const ArrayRow& row : array_rows) *row.element(*properties) = attribute_of(device, row.attribute);
    return cudaSuccess;
}
