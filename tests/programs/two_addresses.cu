// SPDX-License-Identifier: Apache-2.0
// two_addresses.cu: one piece of memory (cuMemCreate) that is mapped at two addresses: what is written at one is read
// at the other, by kernels and by copies, until it is unmapped there; and it lives as long as one of them.
#include <algorithm>
#include <vector>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

__global__ void add(int* to, const int* from, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
}

int main() {
    CHECK(cudaFree(nullptr));
    FUNCTION(cuMemCreate, 10020);
    FUNCTION(cuMemRelease, 10020);
    FUNCTION(cuMemAddressReserve, 10020);
    FUNCTION(cuMemAddressFree, 10020);
    FUNCTION(cuMemMap, 10020);
    FUNCTION(cuMemUnmap, 10020);
    FUNCTION(cuMemSetAccess, 10020);
    FUNCTION(cuPointerGetAttribute, 4000);
    constexpr size_t bytes = 2 << 20;
    constexpr int n = bytes / sizeof(int);
    CUmemAllocationProp of{};
    of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    const CUmemAccessDesc access{of.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    // Beside each other in one range of addresses, with room between them.
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr at = 0;
    DRIVER(p_cuMemCreate(&memory, bytes, &of, 0));
    DRIVER(p_cuMemAddressReserve(&at, 3 * bytes, 0, 0, 0));
    const CUdeviceptr first = at, second = at + 2 * bytes;
    DRIVER(p_cuMemMap(first, bytes, 0, memory, 0));
    DRIVER(p_cuMemMap(second, bytes, 0, memory, 0));
    DRIVER(p_cuMemSetAccess(first, bytes, &access, 1));
    DRIVER(p_cuMemSetAccess(second, bytes, &access, 1));
    DRIVER(p_cuMemRelease(memory));  // the mappings have it
    auto* const one = reinterpret_cast<int*>(first);
    auto* const two = reinterpret_cast<int*>(second);

    std::vector<int> host(n);
    long wrong = 0;
    CHECK(cudaMemset(one, 0, bytes));
    for (int i = 0; i < 4; ++i) {  // each reads what the one before has written at the other address
        add<<<(n + 255) / 256, 256>>>(two, one, n);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(host.data(), two, bytes, cudaMemcpyDeviceToHost));
    for (const int value : host) wrong += value != 4;
    for (int i = 0; i < n; ++i) host[i] = i;
    CHECK(cudaMemcpy(two, host.data(), bytes, cudaMemcpyHostToDevice));
    std::fill(host.begin(), host.end(), 0);
    CHECK(cudaMemcpy(host.data(), one, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) wrong += host[i] != i;

    // What is unmapped at one address is refused there, and still there at the other.
    DRIVER(p_cuMemUnmap(first, bytes));
    unsigned type = 0;
    REQUIRE(p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, first) == CUDA_ERROR_INVALID_VALUE);
    DRIVER(p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, second));
    REQUIRE(cudaMemset(one, 0, bytes) == cudaErrorInvalidValue);
    cudaGetLastError();
    std::fill(host.begin(), host.end(), 0);
    CHECK(cudaMemcpy(host.data(), two, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) wrong += host[i] != i;
    DRIVER(p_cuMemUnmap(second, bytes));
    DRIVER(p_cuMemAddressFree(at, 3 * bytes));
    return verdict(wrong);
}
