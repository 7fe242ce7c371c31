// SPDX-License-Identifier: Apache-2.0
// refused: calls what Barcuda refuses, twice each, and says what the call answered and what the log of errors has.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "../../programs/check.h"

// As programs find them that look functions up by themselves; cuGetProcAddress finds the same.
#define FUNCTION(name)                                                                                    \
    static const auto p_##name = reinterpret_cast<decltype(&name)>(dlsym(RTLD_DEFAULT, #name));           \
    void* named_##name = nullptr;                                                                         \
    CHECK(cudaGetDriverEntryPointByVersion(#name, &named_##name, CUDART_VERSION, cudaEnableDefault, nullptr)); \
    REQUIRE(named_##name == reinterpret_cast<void*>(p_##name))

static void CUDA_CB hear(void* count, CUlogLevel, char* message, size_t) {
    ++*static_cast<int*>(count);
    printf("heard %s\n", message);
}
template <class Call> static void twice(const char* name, Call call) {
    for (int i = 0; i < 2; ++i) printf("%s answers %d\n", name, static_cast<int>(call()));
}

int main() {
    FUNCTION(cuLogsRegisterCallback);
    FUNCTION(cuDeviceGetLuid);
    FUNCTION(cuMulticastGetGranularity);
    FUNCTION(cuCheckpointProcessLock);
    FUNCTION(cuDeviceGetAttribute);
    CUlogsCallbackHandle handle;
    int heard = 0;
    CHECK(cudaFree(nullptr));
    REQUIRE(p_cuLogsRegisterCallback(hear, &heard, &handle) == CUDA_SUCCESS);
    size_t bytes;
    unsigned mask;
    char luid[8];
    CUmulticastObjectProp prop = {};
    twice("cuDeviceGetLuid", [&] { return p_cuDeviceGetLuid(luid, &mask, 0); });
    twice("cuMulticastGetGranularity",
          [&] { return p_cuMulticastGetGranularity(&bytes, &prop, CU_MULTICAST_GRANULARITY_MINIMUM); });
    twice("cuCheckpointProcessLock", [] { return p_cuCheckpointProcessLock(1, nullptr); });
    twice("cudaDeviceGetNvSciSyncAttributes", [&] { return cudaDeviceGetNvSciSyncAttributes(luid, 0, 0); });
    cudaExternalMemory_t memory;
    cudaExternalMemoryHandleDesc desc = {};
    desc.type = cudaExternalMemoryHandleTypeOpaqueWin32;
    twice("cudaImportExternalMemory", [&] { return cudaImportExternalMemory(&memory, &desc); });
    REQUIRE(heard == 10);
    // What is refused is not offered either.
    for (const cudaDeviceAttr a : {cudaDevAttrTimelineSemaphoreInteropSupported, cudaDevAttrSparseCudaArraySupported}) {
        int value = -1;
        CHECK(cudaDeviceGetAttribute(&value, a, 0));
        REQUIRE(value == 0);
    }
    int multicast = -1;
    REQUIRE(p_cuDeviceGetAttribute(&multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0) == CUDA_SUCCESS);
    REQUIRE(multicast == 0);
    return 0;
}
