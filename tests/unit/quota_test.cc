// SPDX-License-Identifier: Apache-2.0
// How a worker counts its client's device memory, with a driver that has as much as it is asked for.
#include "host-bridge/worker/quota/quota.h"

#include <gtest/gtest.h>

#include "host-bridge/worker/quota/granter.h"

namespace barcuda {
namespace {

constexpr std::uint64_t mib = 1 << 20;

struct QuotaTest : testing::Test, Granter {
    Sheet sheet;
    Allowance allowance{sheet};
    Quota quota{driver(), *this, allowance, {}};
    std::uint64_t names = 0;

    static Driver driver() {
        Driver driver;
        driver.cuCtxGetDevice = [](CUdevice* device) { return *device = 0, CUDA_SUCCESS; };
        driver.cuCtxGetCurrent = [](CUcontext* context) { return *context = nullptr, CUDA_SUCCESS; };
        return driver;
    }
    CUresult allocate(std::uint64_t bytes, CUresult answer = CUDA_SUCCESS) {
        return quota.allocate(bytes, [&](std::uint64_t& name) { return name = ++names, answer; });
    }
    std::uint64_t counted() const { return sheet.device_memory[0]; }

    CUresult grant(std::uint64_t, std::uint64_t&, std::uint64_t&) override { return CUDA_ERROR_OUT_OF_MEMORY; }
    void release(std::uint64_t, std::uint64_t) override {}
    CUresult share(Shared::Kind, Shared::Handle&, const File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    CUresult find_shared(Shared::Kind, Shared::Handle&, File&) override { return CUDA_ERROR_NOT_SUPPORTED; }
    void withdraw(const Shared::Handle&) override {}
};

TEST_F(QuotaTest, CountsWhatTheDriverHasGiven) {
    EXPECT_EQ(allocate(256 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 256 * mib);
    EXPECT_EQ(allocate(mib, CUDA_ERROR_OUT_OF_MEMORY), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(counted(), 256 * mib);
    quota.freed(1);
    EXPECT_EQ(counted(), 0u);
}
TEST_F(QuotaTest, ForgetsNothingWhenMoreIsAskedForThanThereAreNumbers) {
    ASSERT_EQ(allocate(256 * mib), CUDA_SUCCESS);
    for (const std::uint64_t much : {~std::uint64_t{0}, ~std::uint64_t{0} - 4095, std::uint64_t{1} << 63}) {
        EXPECT_EQ(allocate(much, CUDA_ERROR_OUT_OF_MEMORY), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(counted(), 256 * mib) << much;
    }
}
TEST_F(QuotaTest, RefusesWhatIsBeyondALimit) {
    sheet.limits[static_cast<unsigned>(Limit::device_memory)] = 100 * mib;
    EXPECT_EQ(allocate(101 * mib), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(allocate(~std::uint64_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(allocate(100 * mib), CUDA_SUCCESS);
    EXPECT_EQ(counted(), 100 * mib);
}

}  // namespace
}  // namespace barcuda
