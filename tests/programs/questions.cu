// SPDX-License-Identifier: Apache-2.0
// questions: what programs ask of devices, contexts and memory beside what device_info shows: answers that fit one
// another, and what older programs call.
#include "driver.h"

#define FUNCTION(name, version) static const auto p_##name = entry<decltype(&name)>(#name, version)

int main() {
    FUNCTION(cuDeviceGetAttribute, 12000);
    FUNCTION(cuDeviceGetExecAffinitySupport, 12000);
    FUNCTION(cuDeviceGetHostAtomicCapabilities, 13000);
    FUNCTION(cuDeviceGetP2PAtomicCapabilities, 13000);
    FUNCTION(cuPointerGetAttribute, 12000);
    FUNCTION(cuPointerSetAttribute, 12000);
    static const auto capability = entry<CUresult (*)(int*, int*, CUdevice)>("cuDeviceComputeCapability");
    static const auto properties = entry<CUresult (*)(CUdevprop*, CUdevice)>("cuDeviceGetProperties");
    CHECK(cudaFree(nullptr));

    // ---- devices
    int major = 0, minor = 0, threads = 0, got_major = 0, got_minor = 0;
    DRIVER(p_cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    DRIVER(p_cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    DRIVER(p_cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
    DRIVER(capability(&got_major, &got_minor, 0));
    REQUIRE(got_major == major && got_minor == minor);
    CUdevprop old;
    DRIVER(properties(&old, 0));
    REQUIRE(old.maxThreadsPerBlock == threads && old.SIMDWidth == 32);
    int affinity = -1;
    DRIVER(p_cuDeviceGetExecAffinitySupport(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    REQUIRE(affinity == 0 || affinity == 1);

    const CUatomicOperation operations[3] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS,
                                             CU_ATOMIC_OPERATION_FLOAT_ADD};
    unsigned can[4] = {~0u, ~0u, ~0u, ~0u};
    DRIVER(p_cuDeviceGetHostAtomicCapabilities(can, operations, 3, 0));
    for (int i = 0; i < 3; ++i) REQUIRE(can[i] < 1u << 8);
    REQUIRE(can[3] == ~0u);
    const auto none = static_cast<CUatomicOperation>(99);
    REQUIRE(p_cuDeviceGetHostAtomicCapabilities(can, &none, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuDeviceGetHostAtomicCapabilities(can, operations, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(p_cuDeviceGetP2PAtomicCapabilities(can, operations, 3, 0, 0) == CUDA_ERROR_INVALID_DEVICE);
    int count = 0;
    CHECK(cudaGetDeviceCount(&count));
    if (count > 1) DRIVER(p_cuDeviceGetP2PAtomicCapabilities(can, operations, 3, 0, 1));

    // ---- memory
    void* device;
    CHECK(cudaMalloc(&device, 1 << 20));
    const auto address = reinterpret_cast<CUdeviceptr>(device);
    unsigned word = 9;
    DRIVER(p_cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    REQUIRE(word & 1);
    const unsigned no = 0, yes = 1;
    DRIVER(p_cuPointerSetAttribute(&no, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    DRIVER(p_cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    REQUIRE((word & 1) == 0);
    DRIVER(p_cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    word = 0;
    DRIVER(p_cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    REQUIRE(word & 1);
    REQUIRE(p_cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_ERROR_INVALID_VALUE);
    word = 0;
    DRIVER(p_cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address));
    REQUIRE(word & 1);
    CHECK(cudaFree(device));
    return verdict(0);
}
