// SPDX-License-Identifier: Apache-2.0
// random.cc: the software GPU's cuRAND: the libcurand.so.10 that the worker opens beside the software driver. NVIDIA
// documents that a host generator gives the numbers of a device generator, and its library makes host generators
// without a GPU. So if the toolkit's libcurand is installed, its host generators work for the software GPU: they draw
// the numbers during the call, so the call returns their status, and a copy takes the numbers to device memory in the
// stream's order. Without it no generator can be made.
#include <cuda.h>
#include <curand.h>
#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <vector>

#include "shm-device/rows/commands.h"

namespace {

struct Real {  // NVIDIA's
#define X(name, ...) decltype(&::name) name = nullptr;
    BARCUDA_CURAND_ROWS(X)
#undef X
    bool there = false;
    Real() {
        for (const char* path : {"libcurand.so.10", "/usr/local/cuda/lib64/libcurand.so.10"}) {
            void* handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
            if (!handle || dlsym(handle, "barcuda_guest_library")) continue;
            there = true;
#define X(name, ...) there = (name = reinterpret_cast<decltype(name)>(dlsym(handle, #name))) && there;
            BARCUDA_CURAND_ROWS(X)
#undef X
            if (there) return;
        }
    }
};
const Real functions;  // opened with this library: later a worker may open no file
const Real& real() { return functions; }

struct Generator {
    curandGenerator_t it = nullptr;
    CUstream stream = nullptr;
    bool on_host = false;
};
Generator* of(curandGenerator_t handle) { return reinterpret_cast<Generator*>(handle); }

curandStatus_t create(curandGenerator_t* generator, curandRngType_t type, bool on_host) {
    if (!real().there) return CURAND_STATUS_INITIALIZATION_FAILED;
    curandGenerator_t it = nullptr;
    if (curandStatus_t status = real().curandCreateGeneratorHost(&it, type)) return status;
    *generator = reinterpret_cast<curandGenerator_t>(new Generator{it, nullptr, on_host});
    return CURAND_STATUS_SUCCESS;
}

// A host generator writes with the CPU, so it must not write to memory that only the device may access, nor to freed
// memory: an address that was checked when its command came may have ended with a stream's cuMemFreeAsync since.
bool is_for_the_cpu(const void* to) {
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int managed = 0;
    const auto at = reinterpret_cast<CUdeviceptr>(to);
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS) return false;
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at);
    return type == CU_MEMORYTYPE_HOST || managed;
}

template <class T, class... More>
curandStatus_t draw(curandStatus_t (*function)(curandGenerator_t, T*, std::size_t, More...),
                    curandGenerator_t generator, T* to, std::size_t count, More... more) {
    const Generator* g = of(generator);
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (g->on_host && !is_for_the_cpu(to)) return CURAND_STATUS_LAUNCH_FAILURE;
    if (!g->on_host &&
        (cuStreamIsCapturing(g->stream, &capture) != CUDA_SUCCESS || capture != CU_STREAM_CAPTURE_STATUS_NONE))
        return CURAND_STATUS_LAUNCH_FAILURE;  // a graph would draw the same numbers each time
    try {
        // NVIDIA's library stores two and four numbers at a time, with its own alignment.
        std::vector<T> numbers(count);
        if (curandStatus_t status = function(g->it, numbers.data(), count, more...)) return status;
        if (count == 0) return CURAND_STATUS_SUCCESS;
        if (g->on_host) {
            std::memcpy(to, numbers.data(), count * sizeof(T));
            return CURAND_STATUS_SUCCESS;
        }
        // From pageable memory: the driver has copied it when the call returns.
        const CUresult r =
            cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), numbers.data(), count * sizeof(T), g->stream);
        return r == CUDA_SUCCESS ? CURAND_STATUS_SUCCESS : CURAND_STATUS_LAUNCH_FAILURE;
    } catch (const std::exception&) {  // more numbers than can exist
        return CURAND_STATUS_ALLOCATION_FAILED;
    }
}

}  // namespace

#define RANDOM extern "C" [[gnu::visibility("default")]] curandStatus_t

RANDOM curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
    return create(generator, type, false);
}
RANDOM curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
    return create(generator, type, true);
}
RANDOM curandDestroyGenerator(curandGenerator_t generator) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    const curandStatus_t status = real().curandDestroyGenerator(of(generator)->it);
    delete of(generator);
    return status;
}
RANDOM curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
    if (!generator) return CURAND_STATUS_NOT_INITIALIZED;
    of(generator)->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
RANDOM curandGetVersion(int* version) {
    return real().there ? real().curandGetVersion(version) : CURAND_STATUS_INITIALIZATION_FAILED;
}
RANDOM curandGetProperty(libraryPropertyType type, int* value) {
    return real().there ? real().curandGetProperty(type, value) : CURAND_STATUS_INITIALIZATION_FAILED;
}

#define SETTING(name, Type)                                                                       \
    RANDOM name(curandGenerator_t generator, Type value) {                                        \
        return generator ? real().name(of(generator)->it, value) : CURAND_STATUS_NOT_INITIALIZED; \
    }
SETTING(curandSetPseudoRandomGeneratorSeed, unsigned long long)
SETTING(curandSetGeneratorOffset, unsigned long long)
SETTING(curandSetGeneratorOrdering, curandOrdering_t)
SETTING(curandSetQuasiRandomGeneratorDimensions, unsigned)
RANDOM curandGenerateSeeds(curandGenerator_t generator) {
    return generator ? real().curandGenerateSeeds(of(generator)->it) : CURAND_STATUS_NOT_INITIALIZED;
}

#define DRAW(name, T)                                                    \
    RANDOM name(curandGenerator_t generator, T* to, std::size_t count) { \
        return draw(real().name, generator, to, count);                  \
    }
DRAW(curandGenerate, unsigned)
DRAW(curandGenerateLongLong, unsigned long long)
DRAW(curandGenerateUniform, float)
DRAW(curandGenerateUniformDouble, double)
#define DRAW_NORMAL(name, T)                                                                  \
    RANDOM name(curandGenerator_t generator, T* to, std::size_t count, T mean, T deviation) { \
        return draw(real().name, generator, to, count, mean, deviation);                      \
    }
DRAW_NORMAL(curandGenerateNormal, float)
DRAW_NORMAL(curandGenerateNormalDouble, double)
DRAW_NORMAL(curandGenerateLogNormal, float)
DRAW_NORMAL(curandGenerateLogNormalDouble, double)
RANDOM curandGeneratePoisson(curandGenerator_t generator, unsigned* to, std::size_t count, double lambda) {
    return draw(real().curandGeneratePoisson, generator, to, count, lambda);
}
