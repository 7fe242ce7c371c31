// SPDX-License-Identifier: Apache-2.0
// layers_test: a call of the session's passes the layers from the top to the driver; what a layer does by itself is
// seen only by those below it.
#include "host-bridge/worker/layers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "host-bridge/worker/quota/granter.h"
#include "host-bridge/worker/quota/quota.h"

namespace barcuda {
namespace {

constexpr std::uint64_t mib = 1 << 20;
std::string passed;                // which functions were called, in order
std::optional<Layers> layers;      // of the driver that is under test
std::uint64_t given = 0x10000000;  // addresses

CUresult real_alloc(CUdeviceptr* address, std::size_t) {
    passed += "driver ";
    *address = given += mib;
    return CUDA_SUCCESS;
}
CUresult real_free(CUdeviceptr) {
    passed += "free ";
    return CUDA_SUCCESS;
}
// An allocator that takes a block of two MiB of its own for each that it is asked for.
CUresult memory_alloc(CUdeviceptr* address, std::size_t) {
    passed += "memory ";
    return layers->below(Layer::memory).cuMemAlloc_v2(address, 2 * mib);
}

struct LayersTest : testing::Test, Granter {
    Sheet sheet;
    Allowance allowance{sheet};
    Driver table;

    LayersTest() {
        passed.clear();
        table.cuMemAlloc_v2 = real_alloc;
        table.cuMemFree_v2 = real_free;
        table.cuCtxGetDevice = [](CUdevice* device) {
            *device = 0;
            return CUDA_SUCCESS;
        };
        table.cuCtxGetCurrent = [](CUcontext* context) {
            *context = nullptr;
            return CUDA_SUCCESS;
        };
        layers.emplace(table);
    }
    void put_memory() {
        layers->put(Layer::memory, [](Driver& driver) { driver.cuMemAlloc_v2 = memory_alloc; });
    }
    void put_quota() {
        layers->put(Layer::quota, [&](Driver& driver) { enforce_quota(driver, *this, allowance, {}); });
    }
    CUresult allocate(std::size_t bytes) {
        CUdeviceptr address = 0;
        return table.cuMemAlloc_v2(&address, bytes);
    }
    std::uint64_t counted() const { return sheet.device_memory[0]; }

    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}
};

TEST_F(LayersTest, WithoutAnyTheDriverIsCalled) {
    EXPECT_EQ(allocate(mib), CUDA_SUCCESS);
    EXPECT_EQ(passed, "driver ");
    EXPECT_EQ(layers->top(), Layer::driver);
}
TEST_F(LayersTest, ACallPassesThemFromTheTop) {
    put_memory();
    put_quota();
    EXPECT_EQ(allocate(mib), CUDA_SUCCESS);
    EXPECT_EQ(passed, "memory driver ");
    EXPECT_EQ(counted(), mib) << "what the client asked for, not what the layer below took for it";
}
TEST_F(LayersTest, WhatOneRefusesNoneBelowItSees) {
    put_memory();
    put_quota();
    sheet.limits[static_cast<unsigned>(Limit::device_memory)] = mib;
    EXPECT_EQ(allocate(2 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(passed, "");
}
TEST_F(LayersTest, EachLeavesTheOthersFunctionsAsTheyAre) {
    put_memory();
    EXPECT_EQ(table.cuMemFree_v2, real_free);
    EXPECT_EQ(layers->below(Layer::memory).cuMemAlloc_v2, real_alloc);
    put_quota();
    EXPECT_EQ(layers->below(Layer::quota).cuMemAlloc_v2, memory_alloc);
    EXPECT_EQ(layers->below(Layer::quota).cuMemFree_v2, real_free);
    EXPECT_EQ(layers->top(), Layer::quota);
}
TEST_F(LayersTest, OneThatBelongsBelowAnotherIsNotPutOnTop) {
    put_quota();
    EXPECT_DEATH(put_memory(), "");
    EXPECT_DEATH(put_quota(), "");
}

}  // namespace
}  // namespace barcuda
