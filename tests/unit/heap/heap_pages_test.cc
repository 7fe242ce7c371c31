// SPDX-License-Identifier: Apache-2.0
// Runs of pages: what a block promises, what a pool gives back, and how little it wastes.
#include "guest-allocator/heap/pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;
using namespace barcuda::heap::test;

namespace {

struct Pool : testing::Test {
    void SetUp() override {
        ASSERT_TRUE(activate());
        trim(true);
        ASSERT_EQ(granted(), 0u);
    }
    void TearDown() override {
        trim(true);
        EXPECT_EQ(granted(), 0u) << "a test left extents behind";
    }
    std::vector<void*> fill(std::size_t bytes) {
        std::vector<void*> blocks;
        while (void* p = pinned_alloc(bytes, 0)) blocks.push_back(p);
        return blocks;
    }
    void give_all(const std::vector<void*>& blocks) {
        for (void* p : blocks) EXPECT_TRUE(pinned_free(p));
    }
};

TEST_F(Pool, ABlockBeginsOnAPageAndHasTheFlagsAndSizeItWasAskedWith) {
    void* p = pinned_alloc(5000, 6);
    const Found found = find(static_cast<char*>(p) + 4999);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 4096, 0u);
    EXPECT_EQ(found.kind, Kind::pinned);
    EXPECT_EQ(found.base, p);
    EXPECT_EQ(found.bytes, 5000u);
    EXPECT_EQ(found.flags, 6u);
    EXPECT_TRUE(pinned_free(p));
}

TEST_F(Pool, AnInnerAddressIsNotABlockToFree) {
    auto* p = static_cast<char*>(pinned_alloc(64 * KiB, 0));
    EXPECT_FALSE(pinned_free(p + 4096));
    EXPECT_FALSE(pinned_free(p + 1));
    EXPECT_TRUE(pinned_free(p));
    EXPECT_FALSE(pinned_free(p)) << "twice";
}

TEST_F(Pool, AFreedBlockIsNoLongerFound) {
    void* p = pinned_alloc(1 * MiB, 0);
    pinned_free(p);
    EXPECT_EQ(find(p).kind, Kind::outside);
}

TEST_F(Pool, TheNextBlockOfTheSameSizeIsTheOneThatWasFreed) {
    void* p = pinned_alloc(16 * MiB, 0);
    pinned_free(p);
    void* again = pinned_alloc(16 * MiB, 0);
    EXPECT_EQ(again, p);
    pinned_free(again);
}

TEST_F(Pool, SixtyFourBlocksOfOneMebibyteFitIntoTheFirstTwoExtents) {
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(pinned_alloc(1 * MiB, 0));
    EXPECT_LE(granted(), 64 * MiB);
    give_all(blocks);
}

TEST_F(Pool, AnOddHugeBlockWastesLessThanAPage) {
    void* p = pinned_alloc(33 * MiB + 1, 0);
    void* q = pinned_alloc(30 * MiB, 0);  // fits behind the first, in the same 64 MiB
    EXPECT_EQ(granted(), 64 * MiB);
    pinned_free(p);
    pinned_free(q);
}

TEST_F(Pool, AlignmentsUpToTheWholeRegionAreKept) {
    for (std::size_t alignment = 4096; alignment <= 128 * MiB; alignment *= 2) {
        void* p = pinned_alloc(12345, 0, alignment);
        ASSERT_NE(p, nullptr) << alignment;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
        std::memset(p, 1, 12345);
        pinned_free(p);
    }
}

TEST_F(Pool, AnAlignmentThatTheRegionCannotKeepIsRefused) { EXPECT_EQ(pinned_alloc(4096, 0, 1024 * MiB), nullptr); }

TEST_F(Pool, SizesBeyondTheRegionAreRefused) {
    EXPECT_EQ(pinned_alloc(extents_bytes + 1, 0), nullptr);
    EXPECT_EQ(pinned_alloc(SIZE_MAX, 0), nullptr);
    EXPECT_EQ(pinned_alloc(SIZE_MAX - 4095, 0), nullptr);
    EXPECT_EQ(pinned_alloc(SIZE_MAX / 2, 0, 1 << 21), nullptr);
}

TEST_F(Pool, TheWholeRegionIsOneBlock) {
    void* p = pinned_alloc(extents_bytes, 0);
    ASSERT_NE(p, nullptr);
    pinned_free(p);
}

TEST_F(Pool, AFullRegionRefusesAndIsWholeAgainOnceEverythingIsFreed) {
    for (int round = 0; round < 3; ++round) {
        const auto blocks = fill(5 * MiB);
        EXPECT_GE(blocks.size() * 5 * MiB, extents_bytes * 7 / 8) << "more than an eighth is wasted";
        give_all(blocks);
        trim(true);
        EXPECT_EQ(granted(), 0u);
    }
}

TEST_F(Pool, NeighboursMergeInWhateverOrderTheyAreFreed) {
    std::mt19937 random(1);
    for (int round = 0; round < 20; ++round) {
        auto blocks = fill(3 * MiB + 4096 * (round % 5));
        std::shuffle(blocks.begin(), blocks.end(), random);
        give_all(blocks);
        trim(true);
        ASSERT_EQ(granted(), 0u) << "an extent did not become one free run";
    }
}

TEST_F(Pool, EmptyExtentsOfOneKindMakeRoomForTheOther) {
    const auto blocks = fill(16 * MiB);
    give_all(blocks);
    EXPECT_GT(granted(), 400 * MiB);
    void* p = region_alloc(300 * MiB, 16, false);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(find(p).kind, Kind::pageable);
    region_free(p);
}

TEST_F(Pool, ABlockGrowsInPlaceOverFreePagesAndNotOverUsedOnes) {
    void* p = region_alloc(1 * MiB, 16, false);
    EXPECT_TRUE(region_resize(p, 8 * MiB));
    EXPECT_GE(region_usable(p), 8 * MiB);
    void* q = region_alloc(1 * MiB, 16, false);
    EXPECT_EQ(q, static_cast<char*>(p) + 8 * MiB);
    EXPECT_FALSE(region_resize(p, 9 * MiB));
    EXPECT_TRUE(region_resize(p, 2 * MiB));
    EXPECT_EQ(region_usable(p), 2 * MiB);
    EXPECT_TRUE(region_resize(p, 8 * MiB));
    region_free(p);
    region_free(q);
}

TEST_F(Pool, ZeroedBlocksAreZerosWhateverStoodThereBefore) {
    for (std::size_t bytes : {64 * KiB, 1 * MiB, 20 * MiB, 70 * MiB})
        for (int round = 0; round < 3; ++round) {
            auto* p = static_cast<unsigned char*>(region_alloc(bytes, 16, true));
            ASSERT_NE(p, nullptr);
            for (std::size_t i = 0; i < bytes; i += 64) ASSERT_EQ(p[i], 0) << i << " of " << bytes;
            std::memset(p, 0xa5, bytes);
            region_free(p);
        }
}

TEST_F(Pool, PagesThatNobodyHasTouchedAreKnownToBeZerosAndStayUntouched) {
    void* small = region_alloc(64 * KiB, 16, false);  // the extent's front is used
    unsigned char resident[1];
    auto* p = static_cast<unsigned char*>(region_alloc(32 * MiB, 16, true));
    ASSERT_EQ(mincore(p + 16 * MiB, 4096, resident), 0);
    EXPECT_EQ(resident[0] & 1, 0) << "calloc wrote zeros over zeros";
    region_free(p);
    region_free(small);
}

TEST_F(Pool, PinnedAndPageableNeverShareAnExtent) {
    void* a = pinned_alloc(64 * KiB, 0);
    void* b = region_alloc(64 * KiB, 16, false);
    EXPECT_NE(reinterpret_cast<std::uintptr_t>(a) / granule, reinterpret_cast<std::uintptr_t>(b) / granule);
    EXPECT_EQ(kind_of(a, 64 * KiB), Kind::pinned);
    EXPECT_EQ(kind_of(b, 64 * KiB), Kind::pageable);
    pinned_free(a);
    region_free(b);
}

TEST_F(Pool, StagingBuffersAreInTheRegionButNothingThatAProgramCouldFind) {
    void* p = staging_alloc(1 * MiB);
    EXPECT_TRUE(in_region(p, 1 * MiB));
    EXPECT_EQ(find(p).kind, Kind::outside);
    staging_free(p);
}

TEST_F(Pool, ExtentsGoBackOnlyAfterTheyStoodEmptyForAWhile) {
    void* p = pinned_alloc(1 * MiB, 0);
    pinned_free(p);
    trim();
    EXPECT_GT(granted(), 0u);
    trim(true);
    EXPECT_EQ(granted(), 0u);
}

TEST(Heads, TheNearestHeadAtOrBelowIsFoundOverAnyDistance) {
    constexpr std::size_t pages = 64 * 64 * 64 * 5;
    std::vector<std::uint64_t> memory(Heads::footprint(pages) / 8);
    Heads heads;
    heads.place(memory.data(), pages);
    EXPECT_EQ(heads.at_or_below(pages - 1), SIZE_MAX);
    std::mt19937 random(2);
    std::vector<bool> model(pages);
    model[0] = true;
    heads.add(0);
    for (int i = 0; i < 3000; ++i) {
        const std::size_t at = random() % pages;
        if (i % 3 && at) {
            model[at] = true;
            heads.add(at);
        }
        if (i % 3 == 0 && at && model[at]) {
            model[at] = false;
            heads.remove(at);
        }
        if (i % 16) continue;
        std::size_t from = random() % pages, wanted = from;
        while (!model[wanted]) --wanted;
        ASSERT_EQ(heads.at_or_below(from), wanted);
    }
}

}  // namespace
