// SPDX-License-Identifier: Apache-2.0
// The tables behind <<<...>>>: registration, lookup, and the loading of code at first use. The fat binary is PTX text,
// which drivers take as well; the software GPU runs it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "guest-allocator/runtime/registry.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream_st*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
cudaError_t cudaConfigureCall(dim3, dim3, size_t, cudaStream_t);
cudaError_t cudaSetupArgument(const void*, size_t, size_t);
cudaError_t cudaLaunch(const void*);
}

namespace {

using namespace barcuda::runtime;

// data[i] += step, with `step` a variable of the module.
const char* const ptx_code = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 step = 7;
.visible .entry add_step(.param .u64 data)
{
    .reg .u64 %rd<4>;
    .reg .u32 %r<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [step];
    ld.global.u32 %r3, [%rd3];
    add.u32 %r3, %r3, %r2;
    st.global.u32 [%rd3], %r3;
    ret;
}
)";

struct Wrapper {
    int magic, version;
    const void* data;
    const void* rest;
} wrapper = {0x466243b1, 1, ptx_code, nullptr};

char stub, other_stub, shadow;  // their addresses are the names that a program uses

struct RuntimeRegistry : testing::Test {
    void SetUp() override {
        thread.error = cudaSuccess;
        binary = __cudaRegisterFatBinary(&wrapper);
        __cudaRegisterFunction(binary, &stub, nullptr, "add_step", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
        __cudaRegisterFunction(binary, &other_stub, nullptr, "no_such", -1, nullptr, nullptr, nullptr, nullptr,
                               nullptr);
        __cudaRegisterVar(binary, &shadow, nullptr, "step", 0, 4, 0, 0);
        __cudaRegisterFatBinaryEnd(binary);
    }
    void TearDown() override {
        if (binary) __cudaUnregisterFatBinary(binary);
        thread.error = cudaSuccess;
    }
    // Runs `launch` on four numbers 0, 1, 2, 3 and returns the third.
    template <class Launch> unsigned third(Launch launch) {
        unsigned numbers[4] = {0, 1, 2, 3};
        void* device = nullptr;
        EXPECT_EQ(cudaSuccess, cudaMalloc(&device, sizeof(numbers)));
        EXPECT_EQ(cudaSuccess, cudaMemcpy(device, numbers, sizeof(numbers), cudaMemcpyHostToDevice));
        EXPECT_EQ(cudaSuccess, launch(device));
        EXPECT_EQ(cudaSuccess, cudaMemcpy(numbers, device, sizeof(numbers), cudaMemcpyDeviceToHost));
        EXPECT_EQ(cudaSuccess, cudaFree(device));
        return numbers[2];
    }
    void** binary = nullptr;
};

TEST_F(RuntimeRegistry, LaunchesAKernelByItsHostAddress) {
    EXPECT_EQ(9u, third([](void* data) {
                  void* arguments[] = {&data};
                  return cudaLaunchKernel(&stub, 1, 4, arguments, 0, nullptr);
              }));
}

TEST_F(RuntimeRegistry, LaunchesAKernelThroughTheHandleThatAStubKeeps) {
    EXPECT_EQ(9u, third([](void* data) {
                  cudaKernel_t handle = nullptr;
                  EXPECT_EQ(cudaSuccess, __cudaGetKernel(&handle, &stub));
                  void* arguments[] = {&data};
                  return __cudaLaunchKernel(handle, 1, 4, arguments, 0, nullptr);
              }));
}

TEST_F(RuntimeRegistry, LaunchesAKernelByTheDriverHandleOfItsName) {
    EXPECT_EQ(9u, third([](void* data) {
                  cudaKernel_t handle = nullptr;
                  EXPECT_EQ(cudaSuccess, cudaGetKernel(&handle, &stub));
                  void* arguments[] = {&data};
                  return cudaLaunchKernel(handle, 1, 4, arguments, 0, nullptr);
              }));
}

TEST_F(RuntimeRegistry, LaunchesAsProgramsOfCuda9Did) {
    EXPECT_EQ(9u, third([](void* data) {
                  EXPECT_EQ(cudaSuccess, cudaConfigureCall(1, 4, 0, nullptr));
                  EXPECT_EQ(cudaSuccess, cudaSetupArgument(&data, sizeof(data), 0));
                  return cudaLaunch(&stub);
              }));
}

TEST_F(RuntimeRegistry, WritesAndReadsAVariableByItsHostAddress) {
    unsigned step = 0;
    EXPECT_EQ(cudaSuccess, cudaMemcpyFromSymbol(&step, &shadow, 4, 0, cudaMemcpyDeviceToHost));
    EXPECT_EQ(7u, step);
    step = 40;
    EXPECT_EQ(cudaSuccess, cudaMemcpyToSymbol(&shadow, &step, 4, 0, cudaMemcpyHostToDevice));
    EXPECT_EQ(42u, third([](void* data) {
                  void* arguments[] = {&data};
                  return cudaLaunchKernel(&stub, 1, 4, arguments, 0, nullptr);
              }));
}

TEST_F(RuntimeRegistry, RefusesACopyBeyondTheEndOfAVariable) {
    char bytes[8] = {};
    EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpyToSymbol(&shadow, bytes, 8, 0, cudaMemcpyHostToDevice));
    EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpyToSymbol(&shadow, bytes, 2, 3, cudaMemcpyHostToDevice));
    EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpyToSymbol(&shadow, bytes, 1, SIZE_MAX, cudaMemcpyHostToDevice));
}

TEST_F(RuntimeRegistry, SaysThatAnUnregisteredKernelIsInvalidAtTheLaunch) {
    char unregistered = 0;
    EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaLaunchKernel(&unregistered, 1, 1, nullptr, 0, nullptr));
    EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaGetLastError());
    EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr));
    cudaFunction_t function = nullptr;
    EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaGetFuncBySymbol(&function, &unregistered));
}

TEST_F(RuntimeRegistry, SaysThatAKernelMissingFromItsCodeIsInvalidAtTheLaunch) {
    EXPECT_EQ(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&other_stub, 1, 1, nullptr, 0, nullptr));
}

TEST_F(RuntimeRegistry, SaysThatABlockOrGridThatNoKernelCanHaveIsAnInvalidValue) {
    void* data = nullptr;
    void* arguments[] = {&data};
    EXPECT_EQ(cudaErrorInvalidValue, cudaLaunchKernel(&stub, 1, 1025, arguments, 0, nullptr));
    EXPECT_EQ(cudaErrorInvalidValue, cudaLaunchKernel(&stub, 0, 32, arguments, 0, nullptr));
    EXPECT_EQ(cudaErrorInvalidValue, cudaLaunchKernel(&stub, {1, 70000, 1}, 32, arguments, 0, nullptr));
}

TEST_F(RuntimeRegistry, SaysThatMoreSharedMemoryThanThereIsIsAnInvalidValue) {
    void* data = nullptr;
    void* arguments[] = {&data};
    EXPECT_EQ(cudaErrorInvalidValue, cudaLaunchKernel(&stub, 1, 32, arguments, 1 << 20, nullptr));
}

TEST_F(RuntimeRegistry, SaysThatAnUnregisteredVariableIsInvalid) {
    char unregistered = 0;
    void* address = nullptr;
    EXPECT_EQ(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, &unregistered));
}

TEST_F(RuntimeRegistry, ForgetsTheNamesOfAnUnloadedProgram) {
    __cudaUnregisterFatBinary(binary);
    binary = nullptr;
    EXPECT_EQ(nullptr, find_kernel(&stub));
    EXPECT_EQ(cudaErrorInvalidResourceHandle, cudaLaunchKernel(&stub, 1, 1, nullptr, 0, nullptr));
}

TEST_F(RuntimeRegistry, LaunchesAgainAfterTheDeviceWasReset) {
    auto launch = [](void* data) {
        void* arguments[] = {&data};
        return cudaLaunchKernel(&stub, 1, 4, arguments, 0, nullptr);
    };
    EXPECT_EQ(9u, third(launch));
    EXPECT_EQ(cudaSuccess, cudaDeviceReset());
    EXPECT_EQ(9u, third(launch));
}

TEST(RuntimeRegistryAbi, RefusesAFatBinaryOfAnUnknownKind) {
    Wrapper strange = {0x12345678, 1, ptx_code, nullptr};
    EXPECT_EQ(nullptr, __cudaRegisterFatBinary(&strange));
    __cudaRegisterFunction(nullptr, &stub, nullptr, "add_step", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    EXPECT_EQ(nullptr, find_kernel(&stub));
}

// ---- <<<...>>> within <<<...>>> ------------------------------------------------------------------------------------
TEST(RuntimeCallConfiguration, IsAStack) {
    ASSERT_EQ(0u, __cudaPushCallConfiguration(1, 32, 100, nullptr));
    ASSERT_EQ(0u, __cudaPushCallConfiguration(2, 64, 200, cudaStreamPerThread));
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaSuccess, __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT_EQ(2u, grid.x);
    EXPECT_EQ(64u, block.x);
    EXPECT_EQ(200u, shared);
    EXPECT_EQ(cudaStreamPerThread, stream);
    ASSERT_EQ(cudaSuccess, __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT_EQ(1u, grid.x);
    EXPECT_EQ(nullptr, stream);
}

TEST(RuntimeCallConfiguration, IsMissingWhereNoneWasPushed) {
    dim3 grid, block;
    size_t shared = 0;
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    cudaGetLastError();
}

// ---- the table -----------------------------------------------------------------------------------------------------
struct Entry {
    const void* key;
};

TEST(RuntimePointerMap, FindsWhatWasInsertedThroughManyGrowths) {
    std::vector<Entry> entries(5000);
    static PointerMap<Entry> map;  // its tables are never given back: a map lives as long as the process
    for (auto& entry : entries) {
        entry.key = reinterpret_cast<char*>(0x555555550000) + 16 * (&entry - entries.data());
        ASSERT_TRUE(map.insert(&entry));
    }
    for (auto& entry : entries) ASSERT_EQ(&entry, map.find(entry.key));
    EXPECT_EQ(nullptr, map.find(&entries));
}

TEST(RuntimePointerMap, ForgetsWhatWasRemovedAndNothingElse) {
    std::vector<Entry> entries(300);
    static PointerMap<Entry> map;
    for (auto& entry : entries) {
        entry.key = &entry;
        map.insert(&entry);
    }
    for (std::size_t i = 0; i < entries.size(); i += 3) map.remove(&entries[i]);
    for (std::size_t i = 0; i < entries.size(); i++)
        ASSERT_EQ(i % 3 ? &entries[i] : nullptr, map.find(&entries[i])) << i;
}

TEST(RuntimePointerMap, DoesNotFillUpWithWhatComesAndGoes) {
    Entry entry;
    static PointerMap<Entry> map;
    for (std::uintptr_t i = 1; i < 100000; i++) {
        entry.key = reinterpret_cast<void*>(i * 16);
        ASSERT_TRUE(map.insert(&entry));
        ASSERT_EQ(&entry, map.find(entry.key));
        map.remove(&entry);
        ASSERT_EQ(nullptr, map.find(entry.key));
    }
}

TEST(RuntimePointerMap, GivesTheNewestOfTwoEntriesWithOneName) {
    Entry first{&first}, second{&first};
    static PointerMap<Entry> map;
    map.insert(&first);
    map.insert(&second);
    EXPECT_EQ(&second, map.find(&first));
    map.remove(&first);  // it is no longer in there
    EXPECT_EQ(&second, map.find(&first));
}

TEST(RuntimePointerMap, IsReadWhileItIsWritten) {
    std::vector<Entry> entries(20000);
    static PointerMap<Entry> map;
    for (auto& entry : entries) entry.key = &entry;
    map.insert(&entries[0]);
    std::atomic<bool> done{false};
    std::thread reader([&] {
        while (!done) ASSERT_EQ(&entries[0], map.find(&entries[0]));
    });
    for (std::size_t i = 1; i < entries.size(); i++) map.insert(&entries[i]);
    done = true;
    reader.join();
}

}  // namespace
