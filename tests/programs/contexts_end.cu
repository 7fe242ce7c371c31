// SPDX-License-Identifier: Apache-2.0
// contexts_end.cu: contexts are destroyed one after the other, also while one is current that is gone already.
#include "driver.h"

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
    DRIVER(create(&third, 0, 0));
    DRIVER(allocate(&p, 4096));
    DRIVER(free(p));
    DRIVER(destroy(third));
    return verdict(0);
}
