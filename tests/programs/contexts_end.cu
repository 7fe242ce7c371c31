// SPDX-License-Identifier: Apache-2.0
// contexts_end.cu: contexts are destroyed one after the other, also while one is current that is gone already. What
// needs no context works then, too.
#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

static void without_context() {
    FUNCTION(cuMemGetAllocationGranularity, 10020);
    FUNCTION(cuMemCreate, 10020);
    FUNCTION(cuMemAddressReserve, 10020);
    FUNCTION(cuMemMap, 10020);
    FUNCTION(cuMemSetAccess, 10020);
    FUNCTION(cuMemUnmap, 10020);
    FUNCTION(cuMemAddressFree, 10020);
    FUNCTION(cuMemRelease, 10020);
    CUmemAllocationProp device = {};
    device.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    device.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t bytes = 0;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr at;
    DRIVER(p_cuMemGetAllocationGranularity(&bytes, &device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    DRIVER(p_cuMemCreate(&memory, bytes, &device, 0));
    DRIVER(p_cuMemAddressReserve(&at, bytes, 0, 0, 0));
    DRIVER(p_cuMemMap(at, bytes, 0, memory, 0));
    const CUmemAccessDesc access = {device.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(p_cuMemSetAccess(at, bytes, &access, 1));
    DRIVER(p_cuMemUnmap(at, bytes));
    DRIVER(p_cuMemAddressFree(at, bytes));
    DRIVER(p_cuMemRelease(memory));
}

int main() {
    CHECK(cudaFree(nullptr));
    const auto create = entry<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 3020);
    const auto destroy = entry<decltype(&cuCtxDestroy)>("cuCtxDestroy");
    const auto set = entry<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent");
    const auto allocate = entry<decltype(&cuMemAlloc)>("cuMemAlloc");
    const auto free = entry<decltype(&cuMemFree)>("cuMemFree");
    CUcontext first, second, third;
    CUdeviceptr p;
    DRIVER(create(&first, 0, 0));
    DRIVER(create(&second, 0, 0));
    DRIVER(set(first));  // in the second's place: the first is current twice
    DRIVER(destroy(first));
    REQUIRE(allocate(&p, 4096) != CUDA_SUCCESS);  // in what has ended
    DRIVER(destroy(second));
    REQUIRE(destroy(second) != CUDA_SUCCESS);
    without_context();
    DRIVER(create(&third, 0, 0));
    DRIVER(allocate(&p, 4096));
    DRIVER(free(p));
    DRIVER(destroy(third));
    return verdict(0);
}
