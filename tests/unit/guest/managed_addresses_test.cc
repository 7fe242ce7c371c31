// SPDX-License-Identifier: Apache-2.0
// managed_addresses_test: ranges of managed memory get addresses that the driver has reserved and that no other range
// has, whatever the driver answers.
#include "guest-allocator/driver/managed/state/addresses.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace barcuda::guest::managed {
namespace {

constexpr std::size_t unit = 1 << 21, usual = 16 * unit;
constexpr std::uintptr_t room = 0x400000000000, room_end = room + 200 * unit;

struct ManagedAddresses : testing::Test {
    Addresses addresses{unit, usual};
    ManagedAddresses() { addresses.add_room(room, room_end); }
    // As with a driver that reserves whatever it is asked for.
    std::uintptr_t make(std::size_t bytes) {
        if (const std::uintptr_t at = addresses.take(bytes)) return at;
        const Addresses::Span span = addresses.propose(bytes);
        if (span.size == 0) return 0;
        addresses.reserved(span);
        return addresses.take(bytes);
    }
};

TEST_F(ManagedAddresses, AreNoneBeforeTheDriverHasReservedSome) {
    EXPECT_EQ(addresses.take(unit), 0u);
    EXPECT_EQ(addresses.propose(unit), (Addresses::Span{room, usual}));
    EXPECT_EQ(addresses.take(unit), 0u) << "it is proposed, not reserved";
}
TEST_F(ManagedAddresses, OfOneSpanServeManyRanges) {
    for (std::uintptr_t at = room; at < room + usual; at += unit) EXPECT_EQ(make(unit), at);
    EXPECT_EQ(make(unit), room + usual + unit) << "a unit keeps spans apart";
}
TEST_F(ManagedAddresses, ThatAreGivenBackMergeAndServeAgain) {
    const std::uintptr_t first = make(unit), second = make(2 * unit), third = make(unit);
    addresses.give(first, unit);
    addresses.give(third, unit);
    addresses.give(second, 2 * unit);
    EXPECT_EQ(addresses.take(usual), room);
}
TEST_F(ManagedAddresses, OfALargeRangeAreASpanOfItsOwn) {
    EXPECT_EQ(make(3 * usual), room);
    EXPECT_EQ(addresses.take(unit), 0u);
}
TEST_F(ManagedAddresses, AreShorterWhereTheDriverRefusesMuch) {
    EXPECT_TRUE(addresses.refused(addresses.propose(unit)));
    const Addresses::Span small = addresses.propose(unit);
    EXPECT_EQ(small, (Addresses::Span{room, unit})) << "the room is there again";
    EXPECT_FALSE(addresses.refused(small)) << "not even so much";
}
TEST_F(ManagedAddresses, AreShorterAtTheEndOfTheRoom) {
    while (make(usual)) {}
    const Addresses::Span rest = addresses.propose(unit);
    EXPECT_EQ(rest.size, unit);
    EXPECT_LE(rest.begin + rest.size, room_end);
}
TEST_F(ManagedAddresses, WhereSomethingElseIsAreNotProposedAgain) {
    const Addresses::Span span = addresses.propose(unit);
    EXPECT_GE(addresses.propose(unit).begin, span.begin + span.size);
}
TEST_F(ManagedAddresses, OfASpanThatHasGoneAreNotTakenAgain) {
    const std::uintptr_t first = make(unit), second = make(unit);
    addresses.retire(first);
    addresses.give(second, unit);
    EXPECT_EQ(addresses.take(unit), 0u);
    addresses.retire(first);  // twice
    EXPECT_GT(make(unit), room + usual);
}
TEST_F(ManagedAddresses, AreNeverThoseOfTwoRanges) {
    std::minstd_rand random(1);
    std::map<std::uintptr_t, std::size_t> ranges;
    for (int i = 0; i < 20'000; ++i) {
        if (random() % 2 && !ranges.empty()) {
            const auto one = std::next(ranges.begin(), static_cast<long>(random() % ranges.size()));
            addresses.give(one->first, one->second);
            ranges.erase(one);
            continue;
        }
        const std::size_t bytes = (1 + random() % 20) * unit;
        const std::uintptr_t at = make(bytes);
        if (!at) continue;
        ASSERT_TRUE(at % unit == 0 && room <= at && at + bytes <= room_end);
        const auto behind = ranges.lower_bound(at);
        ASSERT_TRUE(behind == ranges.end() || at + bytes <= behind->first);
        ASSERT_TRUE(behind == ranges.begin() || std::prev(behind)->first + std::prev(behind)->second <= at);
        ranges[at] = bytes;
    }
}

}  // namespace
}  // namespace barcuda::guest::managed
