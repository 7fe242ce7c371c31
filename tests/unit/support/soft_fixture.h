// SPDX-License-Identifier: Apache-2.0
// soft_fixture.h: the software GPU's driver in the test's own process: initialized, with the primary context current.
#pragma once
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#define OK(call) ASSERT_EQ(CUDA_SUCCESS, call)
#define SAYS(code, call) EXPECT_EQ(code, call)

struct SoftGpu : testing::Test {
    static void SetUpTestSuite() {
        setenv("BARCUDA_SOFT_MEMORY", "256M", 1);  // small enough to fill
        OK(cuInit(0));
        OK(cuDeviceGet(&device, 0));
    }
    void SetUp() override {
        OK(cuDevicePrimaryCtxRetain(&context, device));
        OK(cuCtxSetCurrent(context));
    }
    void TearDown() override {
        cuCtxSetCurrent(nullptr);
        EXPECT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRelease(device));
        int active = 1;
        unsigned flags;
        cuDevicePrimaryCtxGetState(device, &flags, &active);
        EXPECT_EQ(0, active) << "a test left the primary context retained";
    }

    static CUdeviceptr device_memory(std::size_t bytes) {
        CUdeviceptr at = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemAlloc(&at, bytes));
        return at;
    }
    template <class T> static std::vector<T> read_back(CUdeviceptr at, std::size_t count) {
        std::vector<T> values(count);
        EXPECT_EQ(CUDA_SUCCESS, cuMemcpyDtoH(values.data(), at, count * sizeof(T)));
        return values;
    }
    static std::size_t free_memory() {
        std::size_t free = 0, total = 0;
        EXPECT_EQ(CUDA_SUCCESS, cuMemGetInfo(&free, &total));
        return free;
    }

    inline static CUdevice device = 0;
    CUcontext context = nullptr;
};
