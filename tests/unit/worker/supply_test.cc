// SPDX-License-Identifier: Apache-2.0
// supply_test: extents reach a client whatever its worker's thread is doing.
#include "host-bridge/worker/supply.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/support/channel_memory.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

constexpr std::uint64_t granule = BARCUDA_GRANULE;

// A bridge that grants the second half of the ground, in pieces.
struct Half : fake::Ground {
    std::uint64_t next = granted;
    std::vector<std::chrono::steady_clock::time_point> asked;
    unsigned full = 0;  // this many grants fail; then another client has released its memory
    CUresult grant(std::uint64_t bytes, std::uint64_t& offset, std::uint64_t& got) override {
        asked.push_back(std::chrono::steady_clock::now());
        if (full) {
            --full;
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (next + bytes > Ground::bytes) return CUDA_ERROR_OUT_OF_MEMORY;
        offset = next;
        got = bytes;
        next += bytes;
        return CUDA_SUCCESS;
    }
    void release(std::uint64_t, std::uint64_t) override {}
};

struct Supplies : testing::Test {
    Half ground;
    ChannelMemory memory = channel_memory();
    Channel channel;
    Preparation prepared{};
    Supplies() { channel.memory = memory.get(); }
    barcuda_supply& page() { return channel.supply(); }
    Bell bell() { return {channel, -1}; }
    void ask(std::uint64_t bytes) {
        page().bytes = bytes;
        publish(page().asked, observe(page().asked) + 1);
    }
    bool answered() { return observe(page().answered) == observe(page().asked); }
    void wait() {
        while (!answered()) std::this_thread::yield();
    }
    std::uint64_t end(std::uint64_t offset) { return fake::ground_base + offset; }
};

TEST_F(Supplies, AreGrantedWhileTheWorkersThreadIsInsideItsDriver) {  // it never calls serve() here
    Supply supply(page(), bell(), ground, ground.extents, prepared);
    supply.begin();
    ask(granule);
    wait();
    EXPECT_EQ(page().error, CUDA_SUCCESS);
    EXPECT_EQ(page().granted, granule);
    std::memset(reinterpret_cast<void*>(end(page().offset)), 1, granule);  // mapped when it is announced
}

TEST_F(Supplies, AreKnownToTheSessionBeforeItsNextCommand) {
    Supply supply(page(), bell(), ground, ground.extents, prepared);
    ask(granule);
    EXPECT_TRUE(supply.asked());
    supply.serve();
    EXPECT_FALSE(supply.asked());
    EXPECT_FALSE(ground.extents.contains(end(page().offset), granule));
    EXPECT_TRUE(supply.adopt());
    EXPECT_TRUE(ground.extents.contains(end(page().offset), granule));
    EXPECT_FALSE(supply.adopt()) << "once";
}

TEST_F(Supplies, OfAWarmWorkerNeedNoBridge) {
    prepared.extents[0] = {0, Half::granted};  // mapped by the ground
    Supply supply(page(), bell(), ground, ground.extents, prepared);
    ask(granule);
    supply.serve();
    EXPECT_EQ(ground.asked.size(), 0u);
    EXPECT_EQ(page().granted, Half::granted);
    EXPECT_TRUE(supply.adopt());
    EXPECT_TRUE(ground.extents.holds(0, Half::granted)) << "as it was";
    ask(granule);
    supply.serve();
    EXPECT_EQ(ground.asked.size(), 1u) << "each is granted once";
}

TEST_F(Supplies, AreRefusedOnlyWhenReleasesHaveHadTheirTime) {
    ground.full = 1;
    Supply supply(page(), bell(), ground, ground.extents, prepared);
    supply.begin();
    ask(granule);
    wait();
    EXPECT_EQ(page().error, CUDA_SUCCESS);
    ASSERT_EQ(ground.asked.size(), 2u);
    EXPECT_GE(ground.asked[1] - ground.asked[0], std::chrono::milliseconds(50)) << "no time for a release";
    ground.full = 2;
    ask(granule);
    wait();
    EXPECT_EQ(page().error, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(ground.full, 0u);
}

TEST_F(Supplies, OfALyingClientAreItsOwnLoss) {
    Supply supply(page(), bell(), ground, ground.extents, prepared);
    for (std::uint64_t bytes : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 60}) {
        ask(bytes);
        ground.full = 1;
        supply.serve();
        EXPECT_EQ(page().error, CUDA_ERROR_OUT_OF_MEMORY);
    }
    publish(page().answered, ~std::uint64_t{0});  // not the host's own copy
    EXPECT_FALSE(supply.asked());
}

}  // namespace
}  // namespace barcuda
