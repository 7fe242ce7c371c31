// SPDX-License-Identifier: Apache-2.0
// device_state.cu: what each of a program's devices has for itself, however many there are: pools, peers, what its
// memory says of itself, and the variables that all of them share. With one device there is nothing to tell apart.
#include <vector>

#include "driver.h"

__device__ int own = 5;
__managed__ int together = 0;

__global__ void copy(int* to, const int* from) { *to = *from; }
__global__ void count(int* to) { *to = ++own, ++together; }

static int devices = 0;
static void use(int device) { CHECK(cudaSetDevice(device)); }
static bool says(cudaError_t wanted, cudaError_t said) {
    if (said != wanted) printf("%s, not %s\n", cudaGetErrorName(said), cudaGetErrorName(wanted));
    return said == wanted && (cudaGetLastError() == wanted || wanted == cudaSuccess);
}
static bool can_access(int device, int peer) {
    int can = 0;
    CHECK(cudaDeviceCanAccessPeer(&can, device, peer));
    return can;
}

// ---- pools ----------------------------------------------------------------------------------------------------------

static unsigned long long used(cudaMemPool_t pool) {
    unsigned long long bytes = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
    return bytes;
}
static cudaMemPool_t current_pool(int device) {
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetMemPool(&pool, device));
    return pool;
}

static void pools() {
    std::vector<cudaMemPool_t> always(devices), mine(devices);
    for (int d = 0; d < devices; ++d) {
        CHECK(cudaDeviceGetDefaultMemPool(&always[d], d));
        REQUIRE(current_pool(d) == always[d]);
        for (int e = 0; e < d; ++e) REQUIRE(always[e] != always[d]);
        cudaMemPoolProps properties = {};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, d};
        use(devices - 1 - d);  // whichever is current
        CHECK(cudaMemPoolCreate(&mine[d], &properties));
        CHECK(cudaDeviceSetMemPool(d, mine[d]));
    }
    for (int d = 0; d < devices; ++d) {
        REQUIRE(current_pool(d) == mine[d]);
        void* memory = nullptr;
        use(d);
        CHECK(cudaMallocAsync(&memory, 1 << 20, nullptr));
        CHECK(cudaDeviceSynchronize());
        for (int e = 0; e < devices; ++e) REQUIRE(used(mine[e]) == (e == d ? 1u << 20 : 0u) && used(always[e]) == 0);
        cudaPointerAttributes of;
        CHECK(cudaPointerGetAttributes(&of, memory));
        REQUIRE(of.type == cudaMemoryTypeDevice && of.device == d);
        use((d + 1) % devices);
        const int there = (d + 1) % devices;
        if (there != d && can_access(there, d)) {  // a pool of one device is another's only if that is said
            cudaMemAccessFlags flags;
            cudaMemLocation location = {cudaMemLocationTypeDevice, there};
            CHECK(cudaMemPoolGetAccess(&flags, mine[d], &location));
            REQUIRE(flags == cudaMemAccessFlagsProtNone);
            cudaMemAccessDesc access = {location, cudaMemAccessFlagsProtReadWrite};
            CHECK(cudaMemPoolSetAccess(mine[d], &access, 1));
            CHECK(cudaMemPoolGetAccess(&flags, mine[d], &location));
            REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
        }
        use(d);
        CHECK(cudaFreeAsync(memory, nullptr));
        CHECK(cudaDeviceSynchronize());
    }
    for (int d = 0; d < devices; ++d) {  // of another device than the current one, too
        use((d + 1) % devices);
        REQUIRE(says(cudaErrorInvalidValue, cudaMemPoolDestroy(always[d])));
        CHECK(cudaMemPoolDestroy(mine[d]));
        REQUIRE(current_pool(d) == always[d]);
    }
}

// ---- peers ----------------------------------------------------------------------------------------------------------

static void peers() {
    for (int d = 0; d < devices; ++d) {
        use(d);
        REQUIRE(!can_access(d, d));
        REQUIRE(says(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(d, 0)));
        REQUIRE(says(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(devices, 0)));
        REQUIRE(says(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(devices)));
    }
    for (int d = 0; d < devices; ++d)
        for (int e = 0; e < devices; ++e) {
            if (e == d || !can_access(d, e)) continue;
            int *here = nullptr, *there = nullptr, value = 100 * d + e;
            use(e);
            CHECK(cudaMalloc((void**)&there, sizeof(int)));
            CHECK(cudaMemcpy(there, &value, sizeof value, cudaMemcpyHostToDevice));
            use(d);
            CHECK(cudaMalloc((void**)&here, sizeof(int)));
            REQUIRE(says(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(e)));
            REQUIRE(says(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(e, 1)));
            CHECK(cudaDeviceEnablePeerAccess(e, 0));
            REQUIRE(says(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(e, 0)));
            copy<<<1, 1>>>(here, there);
            value = 0;
            CHECK(cudaMemcpy(&value, here, sizeof value, cudaMemcpyDeviceToHost));
            REQUIRE(value == 100 * d + e);
            use(e);  // that d may is not that e may
            REQUIRE(says(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(d)));
            use(d);
            CHECK(cudaDeviceDisablePeerAccess(e));
            REQUIRE(says(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(e)));
            CHECK(cudaFree(here));
            CHECK(cudaFree(there));
        }
}

// Access ends with the context that had it.
static void peers_after_a_reset() {
    for (int d = 0; d < devices; ++d) {
        use(d);
        for (int e = 0; e < devices; ++e)
            if (e != d && can_access(d, e)) CHECK(cudaDeviceEnablePeerAccess(e, 0));
        CHECK(cudaDeviceReset());
        for (int e = 0; e < devices; ++e) {
            if (e == d || !can_access(d, e)) continue;
            REQUIRE(says(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(e)));
            CHECK(cudaDeviceEnablePeerAccess(e, 0));
            CHECK(cudaDeviceDisablePeerAccess(e));
        }
    }
}

// ---- memory and streams ---------------------------------------------------------------------------------------------

static void pointers() {
    std::vector<CUcontext> contexts(devices);
    const auto current = entry<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent");
    const auto ask = entry<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute");
    std::vector<void*> device(devices), host(devices), registered(devices);
    std::vector<std::vector<char>> plain(devices, std::vector<char>(1 << 16));
    for (int d = 0; d < devices; ++d) {
        use(d);
        CHECK(cudaMalloc(&device[d], 1000));
        CHECK(cudaHostAlloc(&host[d], 1000, cudaHostAllocPortable));
        CHECK(cudaHostRegister(registered[d] = plain[d].data(), plain[d].size(), cudaHostRegisterPortable));
        DRIVER(current(&contexts[d]));
    }
    for (int d = 0; d < devices; ++d)
        for (void* p : {device[d], host[d], registered[d]}) {
            use((d + 1) % devices);
            cudaPointerAttributes of;
            CHECK(cudaPointerGetAttributes(&of, p));
            REQUIRE(of.device == d);
            REQUIRE(of.type == (p == device[d] ? cudaMemoryTypeDevice : cudaMemoryTypeHost));
            CUcontext context = nullptr;
            DRIVER(ask(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)p));
            REQUIRE(context == contexts[d]);
        }
    for (int d = 0; d < devices; ++d) {
        CHECK(cudaFree(device[d]));
        CHECK(cudaFreeHost(host[d]));
        CHECK(cudaHostUnregister(registered[d]));
    }
}

// Work goes to the device of its stream, whichever is current. Whether a kernel may, CUDA's manual and its drivers do
// not agree: a launch that is accepted is done.
static void streams() {
    for (int d = 0; d < devices; ++d) {
        cudaStream_t stream;
        int *memory = nullptr, number = -1, value = 0;
        use(d);
        CHECK(cudaStreamCreate(&stream));
        CHECK(cudaMalloc((void**)&memory, 2 * sizeof(int)));
        value = 77 + d;
        CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
        use((d + 1) % devices);
        CHECK(cudaStreamGetDevice(stream, &number));
        REQUIRE(number == d);
        copy<<<1, 1, 0, stream>>>(memory + 1, memory);
        const cudaError_t launched = cudaGetLastError();
        if (d == 0) printf("a launch into another device's stream: %s\n", cudaGetErrorName(launched));
        REQUIRE(launched == cudaSuccess || (devices > 1 && launched == cudaErrorInvalidResourceHandle));
        if (launched != cudaSuccess)
            CHECK(cudaMemcpyAsync(memory + 1, memory, sizeof value, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        value = 0;
        CHECK(cudaMemcpy(&value, memory + 1, sizeof value, cudaMemcpyDeviceToHost));
        REQUIRE(value == 77 + d);
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaFree(memory));
    }
}

static void variables() {
    together = 0;
    for (int round = 1; round <= 2; ++round)
        for (int d = 0; d < devices; ++d) {
            int *memory = nullptr, value = 0;
            use(d);
            CHECK(cudaMalloc((void**)&memory, sizeof(int)));
            count<<<1, 1>>>(memory);
            CHECK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
            REQUIRE(value == 5 + round);  // each has its own
            CHECK(cudaDeviceSynchronize());
            REQUIRE(together == (round - 1) * devices + d + 1);  // all have this one
            CHECK(cudaFree(memory));
        }
}

int main() {
    CHECK(cudaGetDeviceCount(&devices));
    printf("%d device%s\n", devices, devices == 1 ? "" : "s");
    pools(), peers(), pointers(), streams(), variables(), peers_after_a_reset(), pointers();
    return verdict(0);
}
