// SPDX-License-Identifier: Apache-2.0
// memory_access.cu: what a device may do with memory that is mapped by hand: nothing, before it is allowed.
#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

int main() {
    CHECK(cudaFree(nullptr));
    FUNCTION(cuMemGetAllocationGranularity, 10020);
    FUNCTION(cuMemCreate, 10020);
    FUNCTION(cuMemRelease, 10020);
    FUNCTION(cuMemAddressReserve, 10020);
    FUNCTION(cuMemAddressFree, 10020);
    FUNCTION(cuMemMap, 10020);
    FUNCTION(cuMemUnmap, 10020);
    FUNCTION(cuMemSetAccess, 10020);
    FUNCTION(cuMemGetAccess, 10020);
    CUmemAllocationProp of{};
    of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    of.location.id = 0;
    size_t bytes = 0;
    DRIVER(p_cuMemGetAllocationGranularity(&bytes, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr at = 0;
    DRIVER(p_cuMemCreate(&memory, bytes, &of, 0));
    DRIVER(p_cuMemAddressReserve(&at, bytes, 0, 0, 0));
    DRIVER(p_cuMemMap(at, bytes, 0, memory, 0));
    unsigned long long access = 77;
    DRIVER(p_cuMemGetAccess(&access, &of.location, at));
    REQUIRE(access == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    const CUmemAccessDesc both{of.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(p_cuMemSetAccess(at, bytes, &both, 1));
    DRIVER(p_cuMemGetAccess(&access, &of.location, at));
    REQUIRE(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(cudaMemset(reinterpret_cast<void*>(at), 1, bytes));
    CHECK(cudaDeviceSynchronize());
    DRIVER(p_cuMemUnmap(at, bytes));
    REQUIRE(p_cuMemGetAccess(&access, &of.location, at) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuMemAddressFree(at, bytes));
    DRIVER(p_cuMemRelease(memory));

    // What host memory would have to be like may be asked (NCCL does) also where there is none.
    of.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    of.location.id = 0;
    of.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    bytes = 0;
    DRIVER(p_cuMemGetAllocationGranularity(&bytes, &of, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    REQUIRE(bytes != 0 && (bytes & (bytes - 1)) == 0);
    const CUresult made = p_cuMemCreate(&memory, bytes, &of, 0);
    if (made == CUDA_SUCCESS) DRIVER(p_cuMemRelease(memory));
    else REQUIRE(made == CUDA_ERROR_NOT_SUPPORTED);
    return verdict(0);
}
