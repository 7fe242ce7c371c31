// SPDX-License-Identifier: Apache-2.0
// live_memory_test: the guest's table of the device memory that lives (client/live_memory.h).
#include "guest-allocator/client/live_memory.h"

#include <gtest/gtest.h>

#include <thread>

namespace barcuda::guest {
namespace {

constexpr std::uint64_t base = 0x100000000000;

TEST(LiveMemory, HoldsEachByteOfAnAllocationAndNoneBehindIt) {
    LiveMemory memory;
    memory.add(base, 1000);
    EXPECT_TRUE(memory.holds(base, 1000));
    EXPECT_TRUE(memory.holds(base + 999, 1));
    EXPECT_FALSE(memory.holds(base, 1001));
    EXPECT_FALSE(memory.holds(base + 1000, 1));
    EXPECT_FALSE(memory.holds(base - 1, 1));
    EXPECT_FALSE(memory.holds(base + 999, ~std::size_t{0}));
}

TEST(LiveMemory, IsNotHeldOnceItIsTakenThoughItWasLookedFor) {
    LiveMemory memory;
    memory.add(base, 4096);
    EXPECT_TRUE(memory.holds(base + 100, 8));  // now one of the places has it
    EXPECT_FALSE(memory.take(base + 100));
    EXPECT_TRUE(memory.take(base));
    EXPECT_FALSE(memory.take(base));
    EXPECT_FALSE(memory.holds(base + 100, 8));
}

TEST(LiveMemory, OfTwoNeighboursIsNotOne) {
    LiveMemory memory;
    memory.add(base, 512);
    memory.add(base + 512, 512);
    EXPECT_TRUE(memory.holds(base, 512));
    EXPECT_TRUE(memory.holds(base + 512, 512));
    EXPECT_FALSE(memory.holds(base, 513));
}

TEST(LiveMemory, ThatIsMappedSideBySideIsOne) {
    constexpr std::size_t size = 2 << 20;
    LiveMemory memory;
    memory.add_mapped(base, size);
    memory.add_mapped(base + 2 * size, size);
    EXPECT_FALSE(memory.holds(base, 2 * size));
    memory.add_mapped(base + size, size);
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
    memory.add(base, 4096);
    EXPECT_TRUE(memory.holds(base + 2048, 1));
    memory.add(base, 1024);
    EXPECT_FALSE(memory.holds(base + 2048, 1));
    EXPECT_TRUE(memory.holds(base, 1024));
    memory.forget_all();
    EXPECT_FALSE(memory.holds(base, 1));
}

// A reader sees a place as it was before a change or after it.
TEST(LiveMemory, IsReadWholeWhileItChanges) {
    static LiveMemory memory;
    std::atomic<bool> ends{false};
    memory.add(base, 512);
    std::thread changes([&] {
        for (int i = 0; i < 20000; ++i) {
            memory.add(base + 0x100000, 64);
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
