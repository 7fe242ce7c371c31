// SPDX-License-Identifier: Apache-2.0
// export_tables.cu: the private tables that NVIDIA's libraries ask their driver for, and the ids of contexts and
// streams, by which libraries find again what they have made: unique for the program's life, also where a handle's
// value is used again. What is in a table is asked of Barcuda alone: of another driver's nothing is known for certain.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "driver.h"

__global__ void first(int* out) { *out = 1; }
__global__ void second(int* out, int value) { *out = value; }

using Table = void* const*;

static CUuuid uuid(const char* text) {
    CUuuid id;
    for (char& byte : id.bytes) {
        while (*text == '-') ++text;
        byte = static_cast<char>(std::stoi(std::string(text, 2), nullptr, 16));
        text += 2;
    }
    return id;
}

static Table table(const char* id, std::size_t bytes) {
    const CUuuid its = uuid(id);
    const void *found = nullptr, *by_runtime = nullptr;
    DRIVER(entry<decltype(&cuGetExportTable)>("cuGetExportTable")(&found, &its));
    CHECK(cudaGetExportTable(&by_runtime, &its));
    REQUIRE(found && found == by_runtime);
    const Table t = static_cast<Table>(found);
    REQUIRE(reinterpret_cast<std::size_t>(t[0]) == bytes);
    for (std::size_t i = 1; i < bytes / sizeof(void*); ++i) REQUIRE(t[i]);
    return t;
}
template <class F> static F slot(Table t, unsigned number) { return reinterpret_cast<F>(t[number]); }

// All but these are refused, whatever they are given.
static void refused_but(Table t, std::set<unsigned> served) {
    for (unsigned i = 1; i < reinterpret_cast<std::size_t>(t[0]) / sizeof(void*); ++i) {
        if (served.count(i)) continue;
        void *one = nullptr, *two = nullptr;
        REQUIRE(slot<CUresult (*)(void*, void*, void*)>(t, i)(&one, &two, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
        REQUIRE(!one && !two);
    }
}

static unsigned long long id_of(CUcontext context) {
    unsigned long long id = 0;
    DRIVER(entry<decltype(&cuCtxGetId)>("cuCtxGetId")(context, &id));
    return id;
}
static unsigned long long id_of(CUstream stream) {
    unsigned long long id = 0;
    CHECK(cudaStreamGetId(stream, &id));
    return id;
}
static CUcontext current() {
    CUcontext context = nullptr;
    DRIVER(entry<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent")(&context));
    return context;
}

static void before_a_context() {
    const Table t = table("42D85A81-23F6-CB47-8298-F6E78A3AECDC", 24);
    CUcontext context = reinterpret_cast<CUcontext>(1);
    DRIVER((slot<CUresult (*)(CUcontext*)>(t, 2)(&context)));
    REQUIRE(!context);
}

static void contexts() {
    const Table t = table("42D85A81-23F6-CB47-8298-F6E78A3AECDC", 24);
    CUcontext context = nullptr;
    DRIVER((slot<CUresult (*)(CUcontext*)>(t, 2)(&context)));
    REQUIRE(context == current());
    refused_but(t, {2});

    const Table ids = table("21318C60-9714-3248-8CA6-41FF7324C8F2", 744);
    const auto device_of = slot<CUresult (*)(CUcontext, CUdevice*)>(ids, 3);
    const auto id = slot<CUresult (*)(CUcontext, std::uint64_t*)>(ids, 4);
    for (CUcontext c : {context, CUcontext{}}) {
        CUdevice device = -1;
        std::uint64_t its = 0;
        DRIVER(device_of(c, &device));
        DRIVER(id(c, &its));
        REQUIRE(device == 0 && its == id_of(context));
    }
    REQUIRE(device_of(reinterpret_cast<CUcontext>(0x999), nullptr) != CUDA_SUCCESS);
    std::uint64_t none = 0;
    REQUIRE(id(reinterpret_cast<CUcontext>(0x999), &none) != CUDA_SUCCESS && none == 0);
    refused_but(ids, {3, 4, 39, 51});
}

static void streams() {
    const Table t = table("21318C60-9714-3248-8CA6-41FF7324C8F2", 744);
    const auto object_of = slot<CUresult (*)(CUcontext, CUstream, void**, int)>(t, 51);
    const auto id = slot<CUresult (*)(CUcontext, void*, std::uint64_t*)>(t, 39);
    CUstream made = nullptr;
    CHECK(cudaStreamCreate(&made));
    for (CUcontext c : {current(), CUcontext{}})
        for (int per_thread : {0, 1})
            for (CUstream stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, made}) {
                void *object = nullptr, *again = nullptr;
                std::uint64_t its = 0;
                DRIVER(object_of(c, stream, &object, per_thread));
                DRIVER(object_of(c, stream, &again, per_thread));
                REQUIRE(object && object == again);
                DRIVER(id(c, object, &its));
                REQUIRE(its == id_of(!stream && per_thread ? CU_STREAM_PER_THREAD : stream));
            }
    CHECK(cudaStreamDestroy(made));
    void* object = nullptr;
    REQUIRE(object_of(nullptr, made, &object, 0) == CUDA_ERROR_INVALID_HANDLE && !object);
    std::uint64_t none = 0;
    REQUIRE(id(nullptr, made, &none) == CUDA_ERROR_INVALID_HANDLE && none == 0);
}

static void functions_of_a_module() {
    const auto each = slot<unsigned (*)(CUcontext, CUmodule, void (*)(void*, CUfunction, std::uint64_t), void*)>(
        table("6E163FBE-B958-444D-835C-E182AFF1991E", 792), 7);
    cudaFunction_t function = nullptr;
    CUmodule module = nullptr;
    unsigned count = 0;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(first)));
    DRIVER(entry<decltype(&cuFuncGetModule)>("cuFuncGetModule")(&module, function));
    DRIVER(entry<decltype(&cuModuleGetFunctionCount)>("cuModuleGetFunctionCount", 12040)(&count, module));
    std::vector<CUfunction> seen;
    const auto note = [](void* where, CUfunction f, std::uint64_t) {
        static_cast<std::vector<CUfunction>*>(where)->push_back(f);
    };
    REQUIRE(each(current(), module, note, &seen) == count && seen.size() == count && count >= 2);
    REQUIRE(std::set<CUfunction>(seen.begin(), seen.end()).size() == count);
    for (CUfunction f : seen) {  // a plain handle
        const char* name = nullptr;
        DRIVER(entry<decltype(&cuFuncGetName)>("cuFuncGetName", 12030)(&name, f));
    }
    REQUIRE(each(current(), nullptr, note, &seen) == 0 && seen.size() == count);
}

static void refusals() {
    refused_but(table("1734DC26-800D-4745-8726-C0F1E7DD8BCA", 136), {});
    refused_but(table("6E163FBE-B958-444D-835C-E182AFF1991E", 792), {7});
    const auto get = entry<decltype(&cuGetExportTable)>("cuGetExportTable");
    for (const char* id : {"69A28E9F-0000-0000-0000-000000000000", "DA9151D3-3AE6-CC41-A5C0-4F26D533E328"}) {
        const CUuuid its = uuid(id);
        const void* found = id;
        REQUIRE(get(&found, &its) != CUDA_SUCCESS && !found);
        found = id;
        REQUIRE(cudaGetExportTable(&found, &its) != cudaSuccess && !found);
        REQUIRE(cudaPeekAtLastError() == cudaSuccess);
    }
    const CUuuid its{};
    const void* found = &its;
    REQUIRE(get(nullptr, &its) == CUDA_ERROR_INVALID_VALUE);
    REQUIRE(get(&found, nullptr) == CUDA_ERROR_INVALID_VALUE && !found);
}

static void ids_of_streams() {
    CUstream a = nullptr, b = nullptr;
    CHECK(cudaStreamCreate(&a));
    CHECK(cudaStreamCreate(&b));
    const unsigned long long its = id_of(a), other = id_of(b), legacy = id_of(CU_STREAM_LEGACY);
    REQUIRE(std::set({its, other, legacy, id_of(CU_STREAM_PER_THREAD)}).size() == 4);
    REQUIRE(id_of(a) == its && id_of(CUstream{}) == legacy);
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamCreate(&a));
    REQUIRE(id_of(a) != its && id_of(a) != other);
    CHECK(cudaStreamDestroy(a));
    CHECK(cudaStreamDestroy(b));
}

int main() {
    const bool barcuda = dlsym(RTLD_DEFAULT, "barcuda_guest_library");
    DRIVER(entry<decltype(&cuInit)>("cuInit")(0));
    if (barcuda) before_a_context();
    std::set<unsigned long long> contexts_seen, streams_seen;
    for (int life = 0; life < 3; ++life) {
        int* out = nullptr;
        CHECK(cudaMalloc(&out, sizeof *out));
        second<<<1, 1>>>(out, life);
        CHECK(cudaDeviceSynchronize());
        REQUIRE(contexts_seen.insert(id_of(current())).second);
        REQUIRE(streams_seen.insert(id_of(CU_STREAM_LEGACY)).second);
        ids_of_streams();
        if (barcuda) contexts(), streams(), functions_of_a_module(), refusals();
        CHECK(cudaDeviceReset());
    }
    return verdict(0);
}
