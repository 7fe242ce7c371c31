// SPDX-License-Identifier: Apache-2.0
// host_pools.cu: pools of host memory. A device's attributes say whether there are such; where they say no, each way to
// one is refused by the code that says so, and what no driver would make is an invalid value.
#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

int main() {
    CHECK(cudaFree(nullptr));
    FUNCTION(cuMemPoolCreate, 11020);
    FUNCTION(cuMemPoolDestroy, 11020);
    FUNCTION(cuMemAllocFromPoolAsync, 11020);
    FUNCTION(cuDeviceGetAttribute, 2000);
    int has = 0, has_nodes = 0;
    if (p_cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0)) has = 0;
    if (p_cuDeviceGetAttribute(&has_nodes, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 0)) has_nodes = 0;
    CUmemPoolProps of{};
    of.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    const auto make = [&](CUmemLocationType type, CUmemAllocationHandleType handle) {
        CUmemoryPool pool = nullptr;
        of.location.type = type;
        of.location.id = 0;
        of.handleTypes = handle;
        const CUresult r = p_cuMemPoolCreate(&pool, &of);
        if (r != CUDA_SUCCESS) {
            REQUIRE(!pool);
            return r;
        }
        CUdeviceptr p = 0;
        DRIVER(p_cuMemAllocFromPoolAsync(&p, 1 << 20, pool, nullptr));
        CHECK(cudaStreamSynchronize(nullptr));
        *reinterpret_cast<volatile int*>(p) = 1;  // it is the CPU's, too
        CHECK(cudaFreeAsync(reinterpret_cast<void*>(p), nullptr));
        CHECK(cudaStreamSynchronize(nullptr));
        DRIVER(p_cuMemPoolDestroy(pool));
        return r;
    };
    REQUIRE(make(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_NONE) ==
            (has ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
    REQUIRE(make(CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_HANDLE_TYPE_NONE) ==
            (has_nodes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
    REQUIRE(make(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, CU_MEM_HANDLE_TYPE_NONE) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(make(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_ERROR_INVALID_VALUE);
    return verdict(0);
}
