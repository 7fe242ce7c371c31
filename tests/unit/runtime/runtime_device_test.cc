// SPDX-License-Identifier: Apache-2.0
// The current device: what makes a context, which context it is, and what a reset leaves.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "guest-allocator/runtime/runtime.h"

namespace {

struct RuntimeDevice : testing::Test {
    void SetUp() override {
        ASSERT_EQ(cudaSuccess, cudaSetDevice(0));
        cudaGetLastError();
    }
};

CUcontext current() {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    return context;
}

TEST_F(RuntimeDevice, IsTheFirstOneInAFreshThread) {
    std::thread([] {
        int device = -1;
        EXPECT_EQ(cudaSuccess, cudaGetDevice(&device));
        EXPECT_EQ(0, device);
        EXPECT_EQ(nullptr, current()) << "asking for the device made a context";
    }).join();
}

TEST_F(RuntimeDevice, SettingItMakesItsPrimaryContextCurrent) {
    std::thread([] {
        EXPECT_EQ(cudaSuccess, cudaSetDevice(0));
        EXPECT_NE(nullptr, current());
    }).join();
}

TEST_F(RuntimeDevice, TheFirstCallThatNeedsAContextMakesOne) {
    std::thread([] {
        EXPECT_EQ(cudaSuccess, cudaFree(nullptr));
        EXPECT_NE(nullptr, current());
    }).join();
}

TEST_F(RuntimeDevice, IsOneContextForAllThreads) {
    CUcontext mine = current();
    std::thread([&] {
        cudaFree(nullptr);
        EXPECT_EQ(mine, current());
    }).join();
}

TEST_F(RuntimeDevice, BeyondTheLastOneIsRefused) {
    int count = 0;
    ASSERT_EQ(cudaSuccess, cudaGetDeviceCount(&count));
    cudaDeviceProp properties;
    int value = 0;
    EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(count));
    EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(-1));
    EXPECT_EQ(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, count));
    EXPECT_EQ(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, count));
    int device = -1;
    EXPECT_EQ(cudaSuccess, cudaGetDevice(&device));
    EXPECT_EQ(0, device) << "a refused device became current";
}

TEST_F(RuntimeDevice, AContextOfTheDriverApiIsRespected) {
    CUcontext own = nullptr;
    ASSERT_EQ(CUDA_SUCCESS, cuCtxCreate(&own, nullptr, 0, 0));
    void* memory = nullptr;
    EXPECT_EQ(cudaSuccess, cudaMalloc(&memory, 16));
    EXPECT_EQ(own, current());
    EXPECT_EQ(cudaSuccess, cudaFree(memory));
    ASSERT_EQ(CUDA_SUCCESS, cuCtxDestroy(own));
    EXPECT_EQ(cudaSuccess, cudaSetDevice(0));
    EXPECT_NE(own, current());
}

TEST_F(RuntimeDevice, APrimaryContextThatTheProgramMadeCurrentIsTheDevices) {
    CUcontext primary = current();
    std::thread([&] {
        ASSERT_EQ(CUDA_SUCCESS, cuCtxSetCurrent(primary));
        EXPECT_EQ(cudaSuccess, cudaFree(nullptr));
        EXPECT_EQ(primary, barcuda::runtime::thread.bound) << "it is treated as a foreign one: nothing is cached";
    }).join();
}

TEST_F(RuntimeDevice, ResettingItGivesBackItsMemory) {
    std::size_t before = 0, after = 0, total = 0;
    ASSERT_EQ(cudaSuccess, cudaMemGetInfo(&before, &total));
    void* memory = nullptr;
    ASSERT_EQ(cudaSuccess, cudaMalloc(&memory, 1 << 20));
    ASSERT_EQ(cudaSuccess, cudaDeviceReset());
    ASSERT_EQ(cudaSuccess, cudaMemGetInfo(&after, &total));
    EXPECT_EQ(before, after);
}

TEST_F(RuntimeDevice, ResettingItInOneThreadLeavesTheOthersUsable) {
    cudaFree(nullptr);
    std::thread([] { ASSERT_EQ(cudaSuccess, cudaDeviceReset()); }).join();
    void* memory = nullptr;
    EXPECT_EQ(cudaSuccess, cudaMalloc(&memory, 16));
    EXPECT_EQ(cudaSuccess, cudaFree(memory));
}

TEST_F(RuntimeDevice, ResettingItClearsTheErrorThatKilledIt) {
    barcuda::runtime::record(CUDA_ERROR_ILLEGAL_ADDRESS);
    ASSERT_EQ(cudaSuccess, cudaDeviceReset());
    EXPECT_EQ(cudaSuccess, cudaGetLastError());
}

TEST_F(RuntimeDevice, PropertiesSayWhatTheAttributesSay) {
    cudaDeviceProp p;
    ASSERT_EQ(cudaSuccess, cudaGetDeviceProperties(&p, 0));
    auto attribute = [](cudaDeviceAttr which) {
        int value = -1;
        EXPECT_EQ(cudaSuccess, cudaDeviceGetAttribute(&value, which, 0));
        return value;
    };
    char name[256];
    std::size_t bytes = 0;
    cuDeviceGetName(name, sizeof(name), 0);
    cuDeviceTotalMem(&bytes, 0);
    EXPECT_STREQ(name, p.name);
    EXPECT_EQ(bytes, p.totalGlobalMem);
    EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMajor), p.major);
    EXPECT_EQ(attribute(cudaDevAttrComputeCapabilityMinor), p.minor);
    EXPECT_EQ(attribute(cudaDevAttrMultiProcessorCount), p.multiProcessorCount);
    EXPECT_EQ(attribute(cudaDevAttrMaxThreadsPerBlock), p.maxThreadsPerBlock);
    EXPECT_EQ(attribute(cudaDevAttrMaxGridDimZ), p.maxGridSize[2]);
    EXPECT_EQ(attribute(cudaDevAttrMaxTexture3DDepthAlt), p.maxTexture3DAlt[2]);
    EXPECT_EQ(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), static_cast<int>(p.sharedMemPerBlockOptin));
    EXPECT_EQ(attribute(cudaDevAttrWarpSize), p.warpSize);
    EXPECT_EQ(attribute(cudaDevAttrHostNumaMultinodeIpcSupported), p.hostNumaMultinodeIpcSupported);
}

TEST_F(RuntimeDevice, FlagsAlwaysSayThatHostMemoryCanBeMapped) {
    unsigned flags = 0;
    EXPECT_EQ(cudaSuccess, cudaSetDeviceFlags(cudaDeviceScheduleYield | cudaDeviceMapHost));
    EXPECT_EQ(cudaSuccess, cudaGetDeviceFlags(&flags));
    EXPECT_EQ(unsigned{cudaDeviceScheduleYield | cudaDeviceMapHost}, flags);
    EXPECT_EQ(cudaSuccess, cudaSetDeviceFlags(cudaDeviceScheduleAuto));
}

TEST_F(RuntimeDevice, TheRuntimeIsVersion13AndNeedsNoDeviceToSaySo) {
    int version = 0;
    EXPECT_EQ(cudaSuccess, cudaRuntimeGetVersion(&version));
    EXPECT_EQ(13000, version);
    EXPECT_EQ(cudaErrorInvalidValue, cudaRuntimeGetVersion(nullptr));
}

TEST_F(RuntimeDevice, ADriverFunctionIsFoundByItsName) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    EXPECT_EQ(cudaSuccess, cudaGetDriverEntryPointByVersion("cuInit", &function, 12000, cudaEnableDefault, &found));
    EXPECT_EQ(cudaDriverEntryPointSuccess, found);
    EXPECT_NE(nullptr, function);
    EXPECT_EQ(cudaSuccess, cudaGetDriverEntryPointByVersion("cuNoSuch", &function, 12000, cudaEnableDefault, &found));
    EXPECT_EQ(cudaDriverEntryPointSymbolNotFound, found);
    EXPECT_EQ(nullptr, function);
}

}  // namespace
