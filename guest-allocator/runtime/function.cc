// SPDX-License-Identifier: Apache-2.0
// function.cc: what is known of a kernel, what can be set for it, how much of it fits: "Execution Control" and
// "Occupancy".
#include "guest-allocator/runtime/launch.h"

using namespace barcuda::runtime;

static_assert(cudaFuncAttributeMaxDynamicSharedMemorySize ==
                  static_cast<int>(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) &&
              cudaFuncAttributeNonPortableClusterSizeAllowed ==
                  static_cast<int>(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED));

namespace {

// A driver function of the kernel that the program calls `symbol`, in the current context.
template <class Call> cudaError_t with(const void* symbol, Call use, const char* caller = __builtin_FUNCTION()) {
    CUfunction function = nullptr;
    if (cudaError_t error = function_named(symbol, &function)) return record(error, caller);
    return record(use(function), caller);
}

struct IntAttribute {
    int cudaFuncAttributes::*member;
    CUfunction_attribute attribute;
};
struct SizeAttribute {
    size_t cudaFuncAttributes::*member;
    CUfunction_attribute attribute;
};
#define ROW(member, attribute) \
    { &cudaFuncAttributes::member, CU_FUNC_ATTRIBUTE_##attribute }
constexpr IntAttribute int_rows[] = {
    ROW(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    ROW(numRegs, NUM_REGS),
    ROW(ptxVersion, PTX_VERSION),
    ROW(binaryVersion, BINARY_VERSION),
    ROW(cacheModeCA, CACHE_MODE_CA),
    ROW(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES),
    ROW(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT),
    ROW(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET),
    ROW(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH),
    ROW(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT),
    ROW(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH),
    ROW(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE),
    ROW(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
};
constexpr SizeAttribute size_rows[] = {
    ROW(sharedSizeBytes, SHARED_SIZE_BYTES),
    ROW(constSizeBytes, CONST_SIZE_BYTES),
    ROW(localSizeBytes, LOCAL_SIZE_BYTES),
};
#undef ROW

}  // namespace

// ---- attributes ----------------------------------------------------------------------------------------------------
API cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
    if (!attributes) return record(cudaErrorInvalidValue);
    return with(symbol, [&](CUfunction function) {
        *attributes = {};
        auto ask = [&](CUfunction_attribute attribute, auto& member) {
            int value = 0;
            CUresult result = cuFuncGetAttribute(&value, attribute, function);
            member = value;
            return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;  // a driver older than the attribute
        };
        for (const SizeAttribute& row : size_rows)
            if (CUresult result = ask(row.attribute, attributes->*row.member)) return result;
        for (const IntAttribute& row : int_rows)
            if (CUresult result = ask(row.attribute, attributes->*row.member)) return result;
        return CUDA_SUCCESS;
    });
}

API cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
    return with(symbol, [&](CUfunction function) {
        return cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);
    });
}

API cudaFuncSetCacheConfig(const void* symbol, cudaFuncCache config) {
    return with(symbol,
                [&](CUfunction function) { return cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config)); });
}

// Banks of shared memory have one width since Maxwell: the call only checks its kernel.
API cudaFuncSetSharedMemConfig(const void* symbol, cudaSharedMemConfig) {
    return with(symbol, [](CUfunction) { return CUDA_SUCCESS; });
}

API cudaFuncGetName(const char** name, const void* symbol) {
    if (!name) return record(cudaErrorInvalidValue);
    return with(symbol, [&](CUfunction function) { return cuFuncGetName(name, function); });
}

API cudaFuncGetParamInfo(const void* symbol, size_t index, size_t* offset, size_t* size) {
    return with(symbol, [&](CUfunction function) { return cuFuncGetParamInfo(function, index, offset, size); });
}

// ---- driver handles ------------------------------------------------------------------------------------------------
API cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
    if (!function) return record(cudaErrorInvalidValue);
    return record(function_of(symbol, function));
}

API cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
    if (!kernel) return record(cudaErrorInvalidValue);
    if (cudaError_t error = kernel_of(symbol, kernel)) return record(error);
    return record(adopt(*kernel));  // it may be launched in the symbol's place
}

API cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device) {
    return ask(cuKernelSetAttribute, static_cast<CUfunction_attribute>(attribute), value, kernel, device);
}

// ---- occupancy -----------------------------------------------------------------------------------------------------
API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* symbol, int threads, size_t shared) {
    return with(symbol, [&](CUfunction function) {
        return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
    });
}

API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* symbol, int threads, size_t shared,
                                                           unsigned flags) {
    return with(symbol, [&](CUfunction function) {
        return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags);
    });
}

API cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, const void* symbol, int blocks, int threads) {
    return with(symbol, [&](CUfunction function) {
        return cuOccupancyAvailableDynamicSMemPerBlock(shared, function, blocks, threads);
    });
}

API cudaOccupancyMaxPotentialClusterSize(int* size, const void* symbol, const cudaLaunchConfig_t* config) {
    if (!config) return record(cudaErrorInvalidValue);
    return with(symbol, [&](CUfunction function) {
        CUlaunchConfig driver = driver_config(*config);
        return cuOccupancyMaxPotentialClusterSize(size, function, &driver);
    });
}

API cudaOccupancyMaxActiveClusters(int* clusters, const void* symbol, const cudaLaunchConfig_t* config) {
    if (!config) return record(cudaErrorInvalidValue);
    return with(symbol, [&](CUfunction function) {
        CUlaunchConfig driver = driver_config(*config);
        return cuOccupancyMaxActiveClusters(clusters, function, &driver);
    });
}
