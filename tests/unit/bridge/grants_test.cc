// SPDX-License-Identifier: Apache-2.0
// grants_test: who holds which granule of the heap, and when one may be given out again.
#include "host-bridge/bridge/grants.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

constexpr std::uint64_t granule = BARCUDA_GRANULE;

struct GrantsTest : testing::Test {
    static constexpr unsigned count = 8;
    Shape shape;
    barcuda_grant table[count] = {};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> cleared;
    Grants grants{prepared(shape), table, [this](std::uint64_t offset, std::uint64_t bytes) {
                      cleared.push_back({offset, bytes});
                  }};

    static const Shape& prepared(Shape& h) {
        h.granule = granule;
        h.granule_count = count;
        h.extents_offset = 4 * granule;
        return h;
    }
};

TEST_F(GrantsTest, ARunIsRoundedUpToGranules) {
    const auto run = grants.grant(0, granule + 1);
    EXPECT_EQ(run.bytes, 2 * granule);
    EXPECT_EQ(run.offset, 4 * granule);
    EXPECT_EQ(grants.held(0), 2 * granule);
}
TEST_F(GrantsTest, TheTableInTheRegionNamesTheOwner) {
    grants.grant(3, granule);
    EXPECT_EQ(table[0].owner, 4u);
    EXPECT_EQ(table[1].owner, 0u);
}
TEST_F(GrantsTest, RunsOfTwoClientsNeverOverlap) {
    const auto a = grants.grant(0, 3 * granule), b = grants.grant(1, 3 * granule);
    EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
}
TEST_F(GrantsTest, AFullHeapGrantsNothing) {
    EXPECT_NE(grants.grant(0, count * granule).bytes, 0u);
    EXPECT_EQ(grants.grant(1, 1).bytes, 0u);
    EXPECT_EQ(grants.free(), 0u);
}
TEST_F(GrantsTest, MoreThanThereIsIsNotGrantedInPart) {
    EXPECT_EQ(grants.grant(0, (count + 1) * granule).bytes, 0u);
    EXPECT_EQ(grants.grant(0, ~std::uint64_t{0}).bytes, 0u);
    EXPECT_EQ(grants.held(0), 0u);
}
TEST_F(GrantsTest, WhatIsFreeIsEmptiedOnceAndNotAgainWhenItIsGranted) {
    const auto mine = grants.grant(0, granule), others = grants.grant(1, granule);
    while (grants.clean_one()) {}  // what an earlier bridge left
    cleared.clear();
    EXPECT_FALSE(grants.clean_one()) << "the rest is clean, or somebody's";
    table[0].mapped = 1;
    EXPECT_TRUE(grants.release(0, mine));
    EXPECT_FALSE(grants.clean_one()) << "a guest maps it still";
    table[0].mapped = 0;
    EXPECT_TRUE(grants.clean_one());
    EXPECT_FALSE(grants.clean_one());
    ASSERT_EQ(cleared.size(), 1u);
    EXPECT_EQ(cleared[0].first, mine.offset);
    EXPECT_EQ(grants.grant(2, granule).offset, mine.offset);
    EXPECT_EQ(cleared.size(), 1u);
    EXPECT_TRUE(grants.release(2, mine));
    EXPECT_EQ(grants.grant(3, granule).offset, mine.offset);
    EXPECT_EQ(cleared.size(), 2u) << "used since";
    EXPECT_EQ(grants.held(1), others.bytes);
}
TEST_F(GrantsTest, WhatIsReservedIsNobodysUntilItIsHandedOver) {
    const auto run = grants.reserve(2 * granule);
    EXPECT_EQ(run.bytes, 2 * granule);
    EXPECT_EQ(table[0].owner, 0u) << "no client may map it yet";
    EXPECT_EQ(grants.free(), (count - 2) * granule);
    EXPECT_FALSE(grants.release(0, run));
    EXPECT_TRUE(grants.hand_over(run, 3));
    EXPECT_EQ(table[0].owner, 4u);
    EXPECT_EQ(grants.held(3), 2 * granule);
    EXPECT_TRUE(grants.hand_over(run, 3)) << "a bridge that was killed has done it already";
    EXPECT_TRUE(grants.release(3, run));
}
TEST_F(GrantsTest, OnlyWhatIsReservedIsHandedOver) {
    const auto run = grants.reserve(2 * granule);
    grants.release({run.offset + granule, granule});
    EXPECT_FALSE(grants.hand_over(run, 3)) << "a part of it is free";
    const auto others = grants.grant(1, granule);
    EXPECT_FALSE(grants.hand_over(others, 3));
    EXPECT_FALSE(grants.hand_over({0, ~std::uint64_t{0}}, 3));
    EXPECT_EQ(grants.held(3), 0u);
    EXPECT_EQ(grants.held(1), granule);
}
TEST_F(GrantsTest, KnowsWhatWouldFitWithoutReserves) {
    grants.grant(0, granule);
    grants.reserve(2 * granule);
    EXPECT_EQ(grants.grant(1, (count - 1) * granule).bytes, 0u);
    EXPECT_TRUE(grants.fits_without_reserves(1, (count - 1) * granule));
    EXPECT_FALSE(grants.fits_without_reserves(1, (count - 1) * granule + 1)) << "the first granule is somebody's";
    EXPECT_FALSE(grants.fits_without_reserves(1, (count - 1) * granule, (count - 1) * granule - 1)) << "beyond a limit";
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
        EXPECT_FALSE(grants.fits_without_reserves(1, bytes)) << bytes;
        EXPECT_EQ(grants.grant(1, bytes).bytes, 0u) << bytes;
    }
}
TEST_F(GrantsTest, WhatWasReservedAndReleasedIsClearedBeforeItIsGranted) {
    grants.release(grants.reserve(granule));
    cleared.clear();
    EXPECT_EQ(grants.grant(0, granule).offset, 4 * granule);
    EXPECT_EQ(cleared.size(), 1u);
}
TEST_F(GrantsTest, WhatIsAnothersCannotBeGivenBack) {
    const auto run = grants.grant(0, granule);
    EXPECT_FALSE(grants.release(1, run));
    EXPECT_FALSE(grants.release(0, {run.offset, 2 * granule}));
    EXPECT_FALSE(grants.release(0, {run.offset + 1, granule}));
    EXPECT_FALSE(grants.release(0, {~std::uint64_t{0} - granule + 1, granule}));
    EXPECT_EQ(grants.held(0), granule);
}
TEST_F(GrantsTest, AGranuleIsClearedBeforeEachGrant) {  // before the first one too: an earlier bridge may have used it
    const auto run = grants.grant(0, granule);
    ASSERT_EQ(cleared.size(), 1u);
    ASSERT_TRUE(grants.release(0, run));
    EXPECT_EQ(grants.grant(1, granule).offset, run.offset);
    ASSERT_EQ(cleared.size(), 2u);
    EXPECT_EQ(cleared[1].first, run.offset);
    EXPECT_EQ(cleared[1].second, granule);
}
// The bridge serves others meanwhile.
TEST_F(GrantsTest, AreEmptiedByFewAtATime) {
    unsigned time = 3;
    const auto has_time = [&] { return time != 0 && time--; };
    EXPECT_EQ(grants.grant(0, 7 * granule, ~0ull, has_time).bytes, 0u);
    EXPECT_EQ(cleared.size(), 3u);
    EXPECT_EQ(grants.held(0), 0u);
    EXPECT_EQ(grants.grant(1, granule).offset, 4 * granule) << "somebody else is quicker";
    EXPECT_EQ(cleared.size(), 3u) << "and finds it empty";
    time = 3;
    EXPECT_EQ(grants.grant(0, 7 * granule, ~0ull, has_time).bytes, 0u);
    EXPECT_EQ(cleared.size(), 6u);
    time = 3;
    EXPECT_EQ(grants.grant(0, 7 * granule, ~0ull, has_time).bytes, 7 * granule);
    EXPECT_EQ(cleared.size(), 8u) << "each once";
}
TEST_F(GrantsTest, AWorkerMapsWhatItsClientHasAndNothingElse) {
    const auto mine = grants.grant(0, 2 * granule);
    grants.grant(1, granule);
    EXPECT_TRUE(grants.let_map(0, mine));
    EXPECT_TRUE(grants.let_map(0, {mine.offset, granule}));
    EXPECT_FALSE(grants.let_map(0, {mine.offset, 3 * granule}));
    EXPECT_FALSE(grants.let_map(1, mine));
    EXPECT_FALSE(grants.let_map(0, {0, granule})) << "the tables";
    EXPECT_FALSE(grants.let_map(0, {mine.offset + 4096, granule}));
    EXPECT_FALSE(grants.let_map(0, {mine.offset, 0}));
    ASSERT_TRUE(grants.release(0, mine));
    EXPECT_FALSE(grants.let_map(0, mine));
}
TEST_F(GrantsTest, WhatAWorkerMayHaveMappedIsItsClientsAloneUntilItEnds) {
    const auto mapped = grants.grant(0, granule), other = grants.grant(0, granule);
    grants.let_map(0, mapped);
    ASSERT_TRUE(grants.release(0, mapped) && grants.release(0, other));
    EXPECT_EQ(grants.held(0), granule);
    EXPECT_EQ(grants.held(), granule);
    EXPECT_EQ(grants.free(), (count - 1) * granule);
    EXPECT_EQ(grants.grant(1, granule).offset, other.offset);
    EXPECT_EQ(grants.reserve((count - 1) * granule).bytes, 0u);
    EXPECT_EQ(grants.grant(1, (count - 1) * granule).bytes, 0u);
    EXPECT_EQ(grants.grant(0, granule).offset, mapped.offset);
    ASSERT_TRUE(grants.release(0, mapped));
    grants.release_all(0);
    EXPECT_EQ(grants.grant(2, granule).offset, mapped.offset);
}
TEST_F(GrantsTest, WhatAClientHasReleasedIsWhatItGetsFirst) {
    const auto gap = grants.grant(0, granule), mapped = grants.grant(0, granule);
    grants.let_map(0, mapped);
    ASSERT_TRUE(grants.release(0, mapped) && grants.release(0, gap));
    EXPECT_EQ(grants.grant(0, granule).offset, mapped.offset);
}
TEST_F(GrantsTest, WhatAClientHasReleasedDoesNotCountAgainWhenItGetsIt) {
    const auto before = grants.grant(1, 3 * granule), mapped = grants.grant(0, 2 * granule);
    grants.let_map(0, mapped);
    ASSERT_TRUE(grants.release(0, mapped) && grants.release(1, before));
    EXPECT_EQ(grants.grant(0, 3 * granule, granule - 1).bytes, 0u);
    EXPECT_EQ(grants.grant(0, 3 * granule, granule).bytes, 3 * granule);
    EXPECT_EQ(grants.grant(0, granule, 0).bytes, 0u);
}
TEST_F(GrantsTest, WhatAWorkerMayHaveWrittenSinceIsClearedBeforeItIsAnothers) {
    const auto mapped = grants.grant(0, granule);
    grants.let_map(0, mapped);
    ASSERT_TRUE(grants.release(0, mapped));
    while (grants.clean_one()) {}
    cleared.clear();
    grants.release_all(0);
    EXPECT_EQ(grants.grant(1, granule).offset, mapped.offset);
    EXPECT_EQ(cleared.size(), 1u);
}
TEST_F(GrantsTest, AGranuleThatAGuestStillMapsIsNotFree) {
    const auto run = grants.grant(0, granule);
    table[0].mapped = 1;
    ASSERT_TRUE(grants.release(0, run));
    EXPECT_NE(grants.grant(1, granule).offset, run.offset);
}
TEST_F(GrantsTest, AClientThatIsGoneHoldsNothing) {
    grants.grant(0, granule);
    grants.grant(1, granule);
    grants.grant(0, 2 * granule);
    EXPECT_EQ(grants.release_all(0), 3u);
    EXPECT_EQ(grants.held(0), 0u);
    EXPECT_EQ(grants.held(1), granule);
}
TEST_F(GrantsTest, TheOwnerIsOursWhateverTheTableSays) {
    grants.grant(0, granule);
    table[0].owner = 2;
    EXPECT_FALSE(grants.release(1, {4 * granule, granule}));
}

}  // namespace
}  // namespace barcuda
