// SPDX-License-Identifier: Apache-2.0
// host_pools.cu: pools of host memory. A device's attributes say whether there are such; where they say no, each way to
// one is refused by the code that says so, and what no driver would make is an invalid value. Where they say yes, CPU
// and GPU reach the memory at one address, and freed memory is used again in the order of streams.
#include <atomic>

#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

__global__ void add(int* p, int n, int more) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] += more;
}

static void hold(void* held) {
    while (static_cast<std::atomic<bool>*>(held)->load()) {
    }
}

// What a program does with a pool of the host.
static void use(CUmemLocationType type) {
    FUNCTION(cuMemPoolCreate, 11020);
    FUNCTION(cuMemPoolSetAccess, 11020);
    FUNCTION(cuMemPoolGetAccess, 11020);
    FUNCTION(cuMemPoolGetAttribute, 11020);
    FUNCTION(cuMemPoolSetAttribute, 11020);
    FUNCTION(cuMemPoolDestroy, 11020);
    FUNCTION(cuMemAllocFromPoolAsync, 11020);
    FUNCTION(cuPointerGetAttribute, 4000);
    constexpr size_t bytes = 1 << 20;
    constexpr int n = bytes / sizeof(int);
    CUmemPoolProps of{};
    of.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    of.location.type = type;
    of.maxSize = 64 << 20;
    CUmemoryPool pool = nullptr;
    DRIVER(p_cuMemPoolCreate(&pool, &of));
    CUmemAccessDesc here{};
    here.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    here.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(p_cuMemPoolSetAccess(pool, &here, 1));
    CUmemAccess_flags flags{};
    DRIVER(p_cuMemPoolGetAccess(&flags, pool, &here.location));
    REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    const auto counter = [&](CUmemPool_attribute which) {
        cuuint64_t value = 77;
        DRIVER(p_cuMemPoolGetAttribute(pool, which, &value));
        return value;
    };
    cuuint64_t keep = ~0ull;
    DRIVER(p_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    REQUIRE(counter(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == keep);
    REQUIRE(p_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &keep) == CUDA_ERROR_INVALID_VALUE);

    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUdeviceptr a = 0, b = 0, c = 0;
    DRIVER(p_cuMemAllocFromPoolAsync(&a, bytes, pool, first));
    REQUIRE(counter(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == bytes);
    CUmemoryPool its = nullptr;
    DRIVER(p_cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    REQUIRE(its == pool);
    CHECK(cudaStreamSynchronize(first));
    int* const p = reinterpret_cast<int*>(a);
    for (int i = 0; i < n; ++i) p[i] = i;
    add<<<64, 256, 0, first>>>(p, n, 5);
    CHECK(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) REQUIRE(p[i] == i + 5);

    // A stream that is held up has not freed yet: only what comes behind the free in it may have the memory.
    std::atomic<bool> held{true};
    CHECK(cudaLaunchHostFunc(first, hold, &held));
    CHECK(cudaMemsetAsync(p, 0, bytes, first));
    CHECK(cudaFreeAsync(p, first));
    REQUIRE(counter(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    DRIVER(p_cuMemAllocFromPoolAsync(&b, bytes, pool, second));
    REQUIRE(b != a);
    DRIVER(p_cuMemAllocFromPoolAsync(&c, bytes, pool, first));
    CHECK(cudaMemsetAsync(reinterpret_cast<void*>(c), 0, bytes, first));
    add<<<64, 256, 0, first>>>(reinterpret_cast<int*>(c), n, 7);
    CHECK(cudaMemsetAsync(reinterpret_cast<void*>(b), 0, bytes, second));
    add<<<64, 256, 0, second>>>(reinterpret_cast<int*>(b), n, 9);
    CHECK(cudaStreamSynchronize(second));
    held = false;
    CHECK(cudaStreamSynchronize(first));
    for (int i = 0; i < n; ++i) REQUIRE(reinterpret_cast<int*>(b)[i] == 9 && reinterpret_cast<int*>(c)[i] == 7);

    CUdeviceptr much = 0;
    REQUIRE(p_cuMemAllocFromPoolAsync(&much, 256 << 20, pool, first) == CUDA_ERROR_OUT_OF_MEMORY);
    REQUIRE(cudaFreeAsync(reinterpret_cast<char*>(c) + 4096, first) != cudaSuccess);
    CHECK(cudaFree(reinterpret_cast<void*>(c)));  // as memory of any pool
    DRIVER(p_cuMemPoolDestroy(pool));
    reinterpret_cast<int*>(b)[0] = 1;  // the pool goes with its last block
    CHECK(cudaFreeAsync(reinterpret_cast<void*>(b), second));
    CHECK(cudaStreamSynchronize(second));
    REQUIRE(p_cuMemPoolDestroy(pool) != CUDA_SUCCESS);
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
}

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
    if (has) {
        use(CU_MEM_LOCATION_TYPE_HOST);
        FUNCTION(cuMemGetDefaultMemPool, 13000);
        CUmemLocation host{};
        host.type = CU_MEM_LOCATION_TYPE_HOST;
        CUmemoryPool standard = nullptr, again = nullptr;
        DRIVER(p_cuMemGetDefaultMemPool(&standard, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
        DRIVER(p_cuMemGetDefaultMemPool(&again, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
        REQUIRE(standard && standard == again);
        REQUIRE(p_cuMemPoolDestroy(standard) == CUDA_ERROR_INVALID_VALUE);
        CUdeviceptr p = 0;
        DRIVER(p_cuMemAllocFromPoolAsync(&p, 4096, standard, nullptr));
        CHECK(cudaFree(reinterpret_cast<void*>(p)));
    }
    if (has_nodes) use(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    return verdict(0);
}
