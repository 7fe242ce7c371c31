// SPDX-License-Identifier: Apache-2.0
// older.cc: the runtime as programs of CUDA 11 and 12 know it. They ask for cudaMalloc of libcudart.so.12, and the
// library has each function under those versions as well (older_names.sh): the same one, or, where the parameters or a
// structure have changed since, the one here. barcuda_12_NAME is what programs of CUDA 12 and 11 get, barcuda_11_NAME
// those of 11 alone. Names that have lost their _v2 since are ordinary functions.
#include <cstddef>
#include <cstring>

#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

#define AS_IN_12(name) extern "C" cudaError_t barcuda_12_##name
#define AS_IN_11(name) extern "C" cudaError_t barcuda_11_##name

// ---- versions ------------------------------------------------------------------------------------------------------
namespace {
constexpr int version_12 = 12090, version_11 = 11080;  // the last of each

cudaError_t tell(int* version, int what) {
    if (!version) return record(cudaErrorInvalidValue);
    *version = what;
    return cudaSuccess;
}
}  // namespace

AS_IN_12(cudaRuntimeGetVersion)(int* version) { return tell(version, version_12); }
AS_IN_11(cudaRuntimeGetVersion)(int* version) { return tell(version, version_11); }

#define ENTRY_POINT(suffix)                                                                                            \
    extern "C" cudaError_t cudaGetDriverEntryPointByVersion##suffix(const char*, void**, unsigned, unsigned long long, \
                                                                    cudaDriverEntryPointQueryResult*);                 \
    AS_IN_12(cudaGetDriverEntryPoint##suffix)                                                                          \
    (const char* name, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {           \
        return cudaGetDriverEntryPointByVersion##suffix(name, function, version_12, flags, status);                    \
    }                                                                                                                  \
    AS_IN_11(cudaGetDriverEntryPoint##suffix)(const char* name, void** function, unsigned long long flags) {           \
        return cudaGetDriverEntryPointByVersion##suffix(name, function, version_11, flags, nullptr);                   \
    }
ENTRY_POINT()
ENTRY_POINT(_ptsz)

// ---- properties: CUDA 12's structure, of which CUDA 11's is the beginning -------------------------------------------
// SAME has the name that it has today; GONE is an attribute today.
// clang-format off
#define PROPERTIES_OF_11(SAME, GONE)                                                                                  \
    SAME(char, name, [256]) SAME(cudaUUID_t, uuid,) SAME(char, luid, [8]) SAME(unsigned, luidDeviceNodeMask,)         \
    SAME(size_t, totalGlobalMem,) SAME(size_t, sharedMemPerBlock,) SAME(int, regsPerBlock,) SAME(int, warpSize,)      \
    SAME(size_t, memPitch,) SAME(int, maxThreadsPerBlock,) SAME(int, maxThreadsDim, [3]) SAME(int, maxGridSize, [3])  \
    GONE(clockRate, CLOCK_RATE) SAME(size_t, totalConstMem,) SAME(int, major,) SAME(int, minor,)                      \
    SAME(size_t, textureAlignment,) SAME(size_t, texturePitchAlignment,) GONE(deviceOverlap, GPU_OVERLAP)             \
    SAME(int, multiProcessorCount,) GONE(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT) SAME(int, integrated,)        \
    SAME(int, canMapHostMemory,) GONE(computeMode, COMPUTE_MODE) SAME(int, maxTexture1D,)                             \
    SAME(int, maxTexture1DMipmap,) GONE(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)                           \
    SAME(int, maxTexture2D, [2]) SAME(int, maxTexture2DMipmap, [2]) SAME(int, maxTexture2DLinear, [3])                \
    SAME(int, maxTexture2DGather, [2]) SAME(int, maxTexture3D, [3]) SAME(int, maxTexture3DAlt, [3])                   \
    SAME(int, maxTextureCubemap,) SAME(int, maxTexture1DLayered, [2]) SAME(int, maxTexture2DLayered, [3])             \
    SAME(int, maxTextureCubemapLayered, [2]) SAME(int, maxSurface1D,) SAME(int, maxSurface2D, [2])                    \
    SAME(int, maxSurface3D, [3]) SAME(int, maxSurface1DLayered, [2]) SAME(int, maxSurface2DLayered, [3])              \
    SAME(int, maxSurfaceCubemap,) SAME(int, maxSurfaceCubemapLayered, [2]) SAME(size_t, surfaceAlignment,)            \
    SAME(int, concurrentKernels,) SAME(int, ECCEnabled,) SAME(int, pciBusID,) SAME(int, pciDeviceID,)                 \
    SAME(int, pciDomainID,) SAME(int, tccDriver,) SAME(int, asyncEngineCount,) SAME(int, unifiedAddressing,)          \
    GONE(memoryClockRate, MEMORY_CLOCK_RATE) SAME(int, memoryBusWidth,) SAME(int, l2CacheSize,)                       \
    SAME(int, persistingL2CacheMaxSize,) SAME(int, maxThreadsPerMultiProcessor,) SAME(int, streamPrioritiesSupported,) \
    SAME(int, globalL1CacheSupported,) SAME(int, localL1CacheSupported,) SAME(size_t, sharedMemPerMultiprocessor,)    \
    SAME(int, regsPerMultiprocessor,) SAME(int, managedMemory,) SAME(int, isMultiGpuBoard,)                           \
    SAME(int, multiGpuBoardGroupID,) SAME(int, hostNativeAtomicSupported,)                                            \
    GONE(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO) SAME(int, pageableMemoryAccess,)    \
    SAME(int, concurrentManagedAccess,) SAME(int, computePreemptionSupported,)                                        \
    SAME(int, canUseHostPointerForRegisteredMem,) SAME(int, cooperativeLaunch,)                                       \
    GONE(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH) SAME(size_t, sharedMemPerBlockOptin,)         \
    SAME(int, pageableMemoryAccessUsesHostPageTables,) SAME(int, directManagedMemAccessFromHost,)                     \
    SAME(int, maxBlocksPerMultiProcessor,) SAME(int, accessPolicyMaxWindowSize,) SAME(size_t, reservedSharedMemPerBlock,)
#define PROPERTIES_SINCE_12(SAME, GONE)                                                                               \
    SAME(int, hostRegisterSupported,) SAME(int, sparseCudaArraySupported,) SAME(int, hostRegisterReadOnlySupported,)  \
    SAME(int, timelineSemaphoreInteropSupported,) SAME(int, memoryPoolsSupported,) SAME(int, gpuDirectRDMASupported,) \
    SAME(unsigned, gpuDirectRDMAFlushWritesOptions,) SAME(int, gpuDirectRDMAWritesOrdering,)                          \
    SAME(unsigned, memoryPoolSupportedHandleTypes,) SAME(int, deferredMappingCudaArraySupported,)                     \
    SAME(int, ipcEventSupported,) SAME(int, clusterLaunch,) SAME(int, unifiedFunctionPointers,)
// clang-format on

namespace {

#define SAME(type, name, extent) type name extent;
#define GONE(name, attribute) int name;
struct Properties12 {
    PROPERTIES_OF_11(SAME, GONE)
    PROPERTIES_SINCE_12(SAME, GONE)
    int reserved[63];
};
#undef SAME
#undef GONE
constexpr std::size_t properties_11_size = offsetof(Properties12, hostRegisterSupported);
static_assert(sizeof(Properties12) == 1032 && properties_11_size == 728);

cudaError_t properties_of(int device, Properties12& its) {
    cudaDeviceProp today;
    if (cudaError_t error = cudaGetDeviceProperties(&today, device)) return error;
    std::memset(&its, 0, sizeof its);
#define SAME(type, name, extent)                         \
    static_assert(sizeof its.name == sizeof today.name); \
    std::memcpy(&its.name, &today.name, sizeof its.name);
#define GONE(name, attribute) cuDeviceGetAttribute(&its.name, CU_DEVICE_ATTRIBUTE_##attribute, device);
    PROPERTIES_OF_11(SAME, GONE)
    PROPERTIES_SINCE_12(SAME, GONE)
#undef SAME
#undef GONE
    return cudaSuccess;
}

}  // namespace

AS_IN_12(cudaGetDeviceProperties)(void* properties, int device) {  // CUDA 12's headers ask for _v2
    Properties12 its;
    if (!properties) return record(cudaErrorInvalidValue);
    const cudaError_t error = properties_of(device, its);
    if (!error) std::memcpy(properties, &its, properties_11_size);
    return error;
}
API cudaGetDeviceProperties_v2(Properties12* properties, int device) {
    return properties ? properties_of(device, *properties) : record(cudaErrorInvalidValue);
}

// ---- structures that have grown since CUDA 11 -----------------------------------------------------------------------
AS_IN_11(cudaFuncGetAttributes)(cudaFuncAttributes* attributes, const void* function) {
    cudaFuncAttributes its;
    if (!attributes) return record(cudaErrorInvalidValue);
    const cudaError_t error = cudaFuncGetAttributes(&its, function);
    if (!error) std::memcpy(static_cast<void*>(attributes), &its, offsetof(cudaFuncAttributes, clusterDimMustBeSet));
    return error;
}

AS_IN_11(cudaCreateTextureObject)
(cudaTextureObject_t* object, const cudaResourceDesc* resource, const cudaTextureDesc* texture,
 const cudaResourceViewDesc* view) {
    cudaTextureDesc its = {};
    if (!texture) return record(cudaErrorInvalidValue);
    std::memcpy(static_cast<void*>(&its), texture, offsetof(cudaTextureDesc, seamlessCubemap));
    return cudaCreateTextureObject(object, resource, &its, view);
}
AS_IN_11(cudaGetTextureObjectTextureDesc)(cudaTextureDesc* texture, cudaTextureObject_t object) {
    cudaTextureDesc its;
    if (!texture) return record(cudaErrorInvalidValue);
    const cudaError_t error = cudaGetTextureObjectTextureDesc(&its, object);
    if (!error) std::memcpy(static_cast<void*>(texture), &its, offsetof(cudaTextureDesc, seamlessCubemap));
    return error;
}
API cudaCreateTextureObject_v2(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                               const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
    return cudaCreateTextureObject(object, resource, texture, view);
}
API cudaGetTextureObjectTextureDesc_v2(cudaTextureDesc* texture, cudaTextureObject_t object) {
    return cudaGetTextureObjectTextureDesc(texture, object);
}

// ---- managed memory: places were devices ----------------------------------------------------------------------------
namespace {
cudaStream_t own(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }
cudaMemLocation place_of(int device) {
    if (device == cudaCpuDeviceId) return {cudaMemLocationTypeHost, 0};
    return {cudaMemLocationTypeDevice, device};
}
}  // namespace

AS_IN_12(cudaMemAdvise)(const void* memory, size_t bytes, cudaMemoryAdvise advice, int device) {
    return cudaMemAdvise(memory, bytes, advice, place_of(device));
}
API cudaMemAdvise_v2(const void* memory, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation place) {
    return cudaMemAdvise(memory, bytes, advice, place);
}
AS_IN_12(cudaMemPrefetchAsync)(const void* memory, size_t bytes, int device, cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, bytes, place_of(device), 0, stream);
}
AS_IN_12(cudaMemPrefetchAsync_ptsz)(const void* memory, size_t bytes, int device, cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, bytes, place_of(device), 0, own(stream));
}
API cudaMemPrefetchAsync_v2(const void* memory, size_t bytes, cudaMemLocation place, unsigned flags,
                            cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, bytes, place, flags, stream);
}
API cudaMemPrefetchAsync_v2_ptsz(const void* memory, size_t bytes, cudaMemLocation place, unsigned flags,
                                 cudaStream_t stream) {
    return cudaMemPrefetchAsync(memory, bytes, place, flags, own(stream));
}
AS_IN_12(cudaMemcpyBatchAsync)
(void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes, size_t* indices,
 size_t attribute_count, size_t* failed, cudaStream_t stream) {
    const cudaError_t error =
        cudaMemcpyBatchAsync(to, from, sizes, count, attributes, indices, attribute_count, stream);
    if (failed && error) *failed = SIZE_MAX;  // "not due to a specific copy"
    return error;
}
AS_IN_12(cudaMemcpyBatchAsync_ptsz)
(void** to, void** from, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes, size_t* indices,
 size_t attribute_count, size_t* failed, cudaStream_t stream) {
    return barcuda_12_cudaMemcpyBatchAsync(to, from, sizes, count, attributes, indices, attribute_count, failed,
                                           own(stream));
}
API cudaEventElapsedTime_v2(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return cudaEventElapsedTime(milliseconds, start, end);
}

// ---- captures and graphs: edges without data ------------------------------------------------------------------------
AS_IN_12(cudaStreamGetCaptureInfo)(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
    return cudaStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
AS_IN_12(cudaStreamGetCaptureInfo_ptsz)(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
    return barcuda_12_cudaStreamGetCaptureInfo(own(stream), status, id);
}
API cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                cudaGraph_t* graph, const cudaGraphNode_t** nodes, size_t* count) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, nullptr, count);
}
API cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, size_t* count) {
    return cudaStreamGetCaptureInfo(own(stream), status, id, graph, nodes, nullptr, count);
}
API cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                size_t* count) {
    return cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count);
}
API cudaStreamGetCaptureInfo_v3_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
    return cudaStreamGetCaptureInfo(own(stream), status, id, graph, nodes, edges, count);
}
AS_IN_12(cudaStreamUpdateCaptureDependencies)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}
AS_IN_12(cudaStreamUpdateCaptureDependencies_ptsz)
(cudaStream_t stream, cudaGraphNode_t* nodes, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(own(stream), nodes, nullptr, count, flags);
}
API cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                           size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(stream, nodes, edges, count, flags);
}
API cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData* edges, size_t count, unsigned flags) {
    return cudaStreamUpdateCaptureDependencies(own(stream), nodes, edges, count, flags);
}

AS_IN_12(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* count) {
    return cudaGraphGetEdges(graph, from, to, nullptr, count);
}
API cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                         size_t* count) {
    return cudaGraphGetEdges(graph, from, to, edges, count);
}
AS_IN_12(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
    return cudaGraphNodeGetDependencies(node, nodes, nullptr, count);
}
API cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                    size_t* count) {
    return cudaGraphNodeGetDependencies(node, nodes, edges, count);
}
AS_IN_12(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
    return cudaGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
API cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                      size_t* count) {
    return cudaGraphNodeGetDependentNodes(node, nodes, edges, count);
}
AS_IN_12(cudaGraphAddDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, nullptr, count);
}
API cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                const cudaGraphEdgeData* edges, size_t count) {
    return cudaGraphAddDependencies(graph, from, to, edges, count);
}
AS_IN_12(cudaGraphRemoveDependencies)
(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, nullptr, count);
}
API cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                   const cudaGraphEdgeData* edges, size_t count) {
    return cudaGraphRemoveDependencies(graph, from, to, edges, count);
}
AS_IN_12(cudaGraphAddNode)
(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after, size_t count,
 cudaGraphNodeParams* parameters) {
    return cudaGraphAddNode(node, graph, after, nullptr, count, parameters);
}
API cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                        const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* parameters) {
    return cudaGraphAddNode(node, graph, after, edges, count, parameters);
}

AS_IN_11(cudaGraphInstantiate)
(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t* failed, char* log, size_t room) {
    if (failed) *failed = nullptr;
    if (log && room) *log = 0;
    return cudaGraphInstantiate(exec, graph, 0);
}
AS_IN_11(cudaGraphExecUpdate)
(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t* failed, cudaGraphExecUpdateResult* result) {
    cudaGraphExecUpdateResultInfo info = {};
    const cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
    if (failed) *failed = info.errorNode;
    if (result) *result = info.result;
    return error;
}
