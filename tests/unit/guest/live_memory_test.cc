// SPDX-License-Identifier: Apache-2.0
// live_memory_test: the guest's table of the device memory that lives (client/live_memory.h).
#include "guest-allocator/client/live_memory.h"

#include <gtest/gtest.h>

#include <thread>

namespace barcuda::guest {
namespace {

constexpr std::uint64_t base = 0x100000000000;
using Kind = LiveMemory::Kind;

TEST(LiveMemory, HoldsEachByteOfAnAllocationAndNoneBehindIt) {
    LiveMemory memory;
    memory.add(base, 1000, Kind::allocated);
    EXPECT_TRUE(memory.holds(base, 1000));
    EXPECT_TRUE(memory.holds(base + 999, 1));
    EXPECT_FALSE(memory.holds(base, 1001));
    EXPECT_FALSE(memory.holds(base + 1000, 1));
    EXPECT_FALSE(memory.holds(base - 1, 1));
    EXPECT_FALSE(memory.holds(base + 999, ~std::size_t{0}));
}

TEST(LiveMemory, IsNotHeldOnceItIsTakenThoughItWasLookedFor) {
    LiveMemory memory;
    memory.add(base, 4096, Kind::allocated);
    EXPECT_TRUE(memory.holds(base + 100, 8));  // now one of the places has it
    EXPECT_FALSE(memory.take(base + 100));
    EXPECT_TRUE(memory.take(base));
    EXPECT_FALSE(memory.take(base));
    EXPECT_FALSE(memory.holds(base + 100, 8));
}

TEST(LiveMemory, OfTwoNeighboursIsNotOne) {
    LiveMemory memory;
    memory.add(base, 512, Kind::allocated);
    memory.add(base + 512, 512, Kind::allocated);
    EXPECT_TRUE(memory.holds(base, 512));
    EXPECT_TRUE(memory.holds(base + 512, 512));
    EXPECT_FALSE(memory.holds(base, 513));
}

TEST(LiveMemory, ThatIsMappedSideBySideIsOne) {
    constexpr std::size_t size = 2 << 20;
    LiveMemory memory;
    memory.add(base, size, Kind::mapped);
    memory.add(base + 2 * size, size, Kind::mapped);
    EXPECT_FALSE(memory.holds(base, 2 * size));
    memory.add(base + size, size, Kind::mapped);
    EXPECT_TRUE(memory.holds(base, 3 * size));
    memory.forget(base + size, size);
    EXPECT_TRUE(memory.holds(base, size));
    EXPECT_FALSE(memory.holds(base, size + 1));
    EXPECT_FALSE(memory.holds(base + size, 1));
    EXPECT_TRUE(memory.holds(base + 2 * size, size));
    EXPECT_FALSE(memory.take(base));  // a mapping is unmapped, not freed
}

TEST(LiveMemory, ThatComesWhereOtherMemoryWasTakesItsPlace) {
    LiveMemory memory;
    memory.add(base, 4096, Kind::allocated);
    EXPECT_TRUE(memory.holds(base + 2048, 1));
    memory.add(base, 1024, Kind::allocated);
    EXPECT_FALSE(memory.holds(base + 2048, 1));
    EXPECT_TRUE(memory.holds(base, 1024));
    memory.forget_all();
    EXPECT_FALSE(memory.holds(base, 1));
}

// A variable of a module: the program cannot free it, and it goes with the module.
TEST(LiveMemory, ThatWasLearnedIsNotFreedAndGoesWithTheCode) {
    LiveMemory memory;
    memory.add(base, 4096, Kind::learned);
    memory.add(base + 4096, 4096, Kind::allocated);
    memory.add(base + 8192, 4096, Kind::learned);
    memory.add(base + (4 << 20), 2 << 20, Kind::mapped);
    EXPECT_FALSE(memory.take(base));
    EXPECT_TRUE(memory.holds(base, 4096));
    EXPECT_TRUE(memory.holds(base + 8192, 4096));
    memory.forget_learned();
    EXPECT_FALSE(memory.holds(base, 1));
    EXPECT_FALSE(memory.holds(base + 8192, 1));
    EXPECT_TRUE(memory.holds(base + 4096, 4096));
    EXPECT_TRUE(memory.holds(base + (4 << 20), 2 << 20));
}

TEST(LiveMemory, SaysOfWhatKindItIs) {
    LiveMemory memory;
    memory.add(base, 4096, Kind::pooled);
    memory.add(base + 4096, 4096, Kind::allocated);
    for (int again = 0; again < 2; ++again) {  // from the table, and from its place
        EXPECT_EQ(memory.kind_of(base + 8, 8), Kind::pooled);
        EXPECT_EQ(memory.kind_of(base + 4096, 8), Kind::allocated);
        EXPECT_EQ(memory.kind_of(base + 8192, 8), Kind::none);
    }
    EXPECT_TRUE(memory.take(base));
}

// Every place that has seen a part of it lets go of it.
TEST(LiveMemory, LeavesAllPlacesWhenItGoes) {
    LiveMemory memory;
    constexpr std::size_t size = 64 << 10;
    memory.add(base, size, Kind::allocated);
    for (std::size_t at = 0; at < size; at += 512) EXPECT_TRUE(memory.holds(base + at, 1));
    EXPECT_TRUE(memory.take(base));
    for (std::size_t at = 0; at < size; at += 512) EXPECT_FALSE(memory.holds(base + at, 1));
    memory.add(base, 512, Kind::allocated);
    for (std::size_t at = 512; at < size; at += 512) EXPECT_FALSE(memory.holds(base + at, 1));
}

// A reader sees a place as it was before a change or after it.
TEST(LiveMemory, IsReadWholeWhileItChanges) {
    static LiveMemory memory;
    std::atomic<bool> ends{false};
    memory.add(base, 512, Kind::allocated);
    std::thread changes([&] {
        for (int i = 0; i < 20000; ++i) {
            memory.add(base + 0x100000, 64, Kind::allocated);
            memory.holds(base + 0x100000, 64);
            memory.take(base + 0x100000);
        }
        ends = true;
    });
    while (!ends) {
        EXPECT_TRUE(memory.holds(base, 512));
        EXPECT_FALSE(memory.holds(base + 0x100000, 65));
    }
    changes.join();
}

}  // namespace
}  // namespace barcuda::guest
