// SPDX-License-Identifier: Apache-2.0
// older.cc: driver functions as programs of CUDA 12 and older know them, under the names that they link to. cuda.h
// declares the newest form of each; the older prototypes are in cudaTypedefs.h (PFN_cuMemAdvise_v8000, ...). Those that
// differ in their name alone, and the twins of those here, are made in names.cc.
#include <string.h>

#include <cstddef>
#include <utility>

#include "guest-allocator/driver/export.h"

// A function that programs find under `symbol`; cuda.h makes its plain name mean another one.
#define OLDER(name, symbol, parameters)                                                                         \
    extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI barcuda_older_##name parameters __asm__(symbol); \
    CUresult CUDAAPI barcuda_older_##name parameters

// It did not say why.
OLDER(get_proc_address, "cuGetProcAddress", (const char* symbol, void** function, int version, cuuint64_t flags)) {
    const CUresult r = cuGetProcAddress(symbol, function, version, flags, nullptr);
    return r == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : r;  // it had no status to say so
}

// ---- devices and contexts: what was replaced, and is still called
OLDER(compute_capability, "cuDeviceComputeCapability", (int* major, int* minor, CUdevice device)) {
    if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (r != CUDA_SUCCESS) return r;
    return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}
OLDER(device_properties, "cuDeviceGetProperties", (CUdevprop * to, CUdevice device)) {
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    CUdevprop p{};
    const std::pair<int*, CUdevice_attribute> values[] = {
        {&p.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {&p.maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {&p.maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {&p.maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
        {&p.maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
        {&p.maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
        {&p.maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
        {&p.sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
        {&p.totalConstantMemory, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
        {&p.SIMDWidth, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
        {&p.memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
        {&p.regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
        {&p.clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
        {&p.textureAlign, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    };
    for (const auto& [value, attribute] : values)
        if (CUresult r = cuDeviceGetAttribute(value, attribute, device); r != CUDA_SUCCESS) return r;
    *to = p;
    return CUDA_SUCCESS;
}
OLDER(create_context, "cuCtxCreate_v3",
      (CUcontext * context, CUexecAffinityParam*, int count, unsigned flags, CUdevice device)) {
    if (count) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return cuCtxCreate_v4(context, nullptr, flags, device);
}
// Since Maxwell all banks of shared memory have one width.
OLDER(get_banks, "cuCtxGetSharedMemConfig", (CUsharedconfig * width)) {
    if (!width) return CUDA_ERROR_INVALID_VALUE;
    *width = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}
OLDER(set_banks, "cuCtxSetSharedMemConfig", (CUsharedconfig)) { return CUDA_SUCCESS; }
OLDER(set_function_banks, "cuFuncSetSharedMemConfig", (CUfunction function, CUsharedconfig)) {
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// ---- memory
static CUmemLocation place_of(CUdevice device) {
    if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
    return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}
OLDER(advise, "cuMemAdvise", (CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device)) {
    return cuMemAdvise(p, bytes, advice, place_of(device));
}
OLDER(prefetch, "cuMemPrefetchAsync", (CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream)) {
    return cuMemPrefetchAsync(p, bytes, place_of(device), 0, stream);
}
OLDER(copy_batch, "cuMemcpyBatchAsync",
      (CUdeviceptr * to, CUdeviceptr* from, size_t* bytes, size_t count, CUmemcpyAttributes* attributes,
       size_t* indices, size_t attribute_count, size_t* failed, CUstream stream)) {
    const CUresult r = cuMemcpyBatchAsync(to, from, bytes, count, attributes, indices, attribute_count, stream);
    if (failed && r != CUDA_SUCCESS) *failed = SIZE_MAX;  // "not due to a specific copy"
    return r;
}

OLDER(copy_boxes, "cuMemcpy3DBatchAsync",
      (size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed, unsigned long long flags, CUstream stream)) {
    const CUresult r = cuMemcpy3DBatchAsync(count, operations, flags, stream);
    if (failed && r != CUDA_SUCCESS) *failed = SIZE_MAX;
    return r;
}

// Programs that load the whole driver by name ask for this function, too. Its addresses have 32 bits.
OLDER(copy_32, "cuMemcpyDtoDAsync", (unsigned to, unsigned from, unsigned bytes, CUstream stream)) {
    return cuMemcpyDtoDAsync(to, from, bytes, stream);
}

// ---- capture
OLDER(begin_capture, "cuStreamBeginCapture", (CUstream stream)) {
    return cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
OLDER(capture_info, "cuStreamGetCaptureInfo", (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id)) {
    return cuStreamGetCaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}
OLDER(capture_info_2, "cuStreamGetCaptureInfo_v2",
      (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
       size_t* count)) {
    return cuStreamGetCaptureInfo(stream, status, id, graph, nodes, nullptr, count);
}
OLDER(update_dependencies, "cuStreamUpdateCaptureDependencies",
      (CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags)) {
    return cuStreamUpdateCaptureDependencies(stream, nodes, nullptr, count, flags);
}

// ---- graphs: older edges have no data
OLDER(edges, "cuGraphGetEdges", (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count)) {
    return cuGraphGetEdges(graph, from, to, nullptr, count);
}
OLDER(dependencies, "cuGraphNodeGetDependencies", (CUgraphNode node, CUgraphNode* nodes, size_t* count)) {
    return cuGraphNodeGetDependencies(node, nodes, nullptr, count);
}
OLDER(dependents, "cuGraphNodeGetDependentNodes", (CUgraphNode node, CUgraphNode* nodes, size_t* count)) {
    return cuGraphNodeGetDependentNodes(node, nodes, nullptr, count);
}
OLDER(add_dependencies, "cuGraphAddDependencies",
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count)) {
    return cuGraphAddDependencies(graph, from, to, nullptr, count);
}
OLDER(remove_dependencies, "cuGraphRemoveDependencies",
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count)) {
    return cuGraphRemoveDependencies(graph, from, to, nullptr, count);
}
OLDER(add_node, "cuGraphAddNode",
      (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count, CUgraphNodeParams* parameters)) {
    return cuGraphAddNode(node, graph, after, nullptr, count, parameters);
}

// The older parameters have neither `kern` nor `ctx`.
static CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1& old) {
    CUDA_KERNEL_NODE_PARAMS p{};
    memcpy(static_cast<void*>(&p), &old, sizeof old);
    return p;
}
static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kern) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
OLDER(add_kernel, "cuGraphAddKernelNode",
      (CUgraphNode * node, CUgraph graph, const CUgraphNode* after, size_t count,
       const CUDA_KERNEL_NODE_PARAMS_v1* old)) {
    if (!old) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS p = newer(*old);
    return cuGraphAddKernelNode(node, graph, after, count, &p);
}
OLDER(get_kernel, "cuGraphKernelNodeGetParams", (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* old)) {
    CUDA_KERNEL_NODE_PARAMS p{};
    if (!old) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = cuGraphKernelNodeGetParams(node, &p);
    if (r == CUDA_SUCCESS) memcpy(static_cast<void*>(old), &p, sizeof *old);
    return r;
}
OLDER(set_kernel, "cuGraphKernelNodeSetParams", (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* old)) {
    if (!old) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS p = newer(*old);
    return cuGraphKernelNodeSetParams(node, &p);
}
OLDER(exec_set_kernel, "cuGraphExecKernelNodeSetParams",
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* old)) {
    if (!old) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS p = newer(*old);
    return cuGraphExecKernelNodeSetParams(exec, node, &p);
}

// It returns a log, which is empty here. (Its first version took the same parameters.)
OLDER(instantiate, "cuGraphInstantiate_v2",
      (CUgraphExec * exec, CUgraph graph, CUgraphNode* failed, char* log, size_t room)) {
    if (failed) *failed = nullptr;
    if (log && room) *log = 0;
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}
OLDER(update, "cuGraphExecUpdate",
      (CUgraphExec exec, CUgraph graph, CUgraphNode* failed, CUgraphExecUpdateResult* result)) {
    CUgraphExecUpdateResultInfo info{};
    const CUresult r = cuGraphExecUpdate(exec, graph, &info);
    if (failed) *failed = info.errorNode;
    if (result) *result = info.result;
    return r;
}
