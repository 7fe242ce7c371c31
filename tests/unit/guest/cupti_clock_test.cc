// SPDX-License-Identifier: Apache-2.0
// cupti_clock_test.cc: times of the worker's clock, and of the program's own, become those of this system's.
#include "guest-allocator/cupti/clock.h"

#include <gtest/gtest.h>

namespace barcuda::guest::cupti {
namespace {

constexpr std::uint64_t second = 1'000'000'000, start = 1'700'000'000 * second;

TEST(Distance, IsWithinAllBounds) {
    Distance distance;
    const std::int64_t apart = -5'000'000'000;
    const auto there = [&](std::uint64_t here) { return here + static_cast<std::uint64_t>(apart); };
    // The worker answered early within a wide bound, and in the middle of a narrow one.
    distance.learn(start, there(start + 10'000), start + 1'000'000);
    EXPECT_EQ(distance.width(), 1'000'000U);
    distance.learn(start + 2'000'000, there(start + 2'010'000), start + 2'020'000);
    EXPECT_LE(distance.width(), 20'200U) << "but for what clocks drift in a millisecond";
    distance.settle(there(start + 3'000'000));
    EXPECT_NEAR(static_cast<double>(distance.here(there(start + 7)) - start), 7, 100);
    distance.learn(start + 4'000'000, there(start + 4'400'000), start + 4'500'000);
    EXPECT_LE(distance.width(), 20'400U) << "a wider bound tells nothing new";
}

TEST(Distance, StaysUntilABoundContradictsIt) {
    Distance distance;
    distance.learn(start, start + second, start + 1'000'000);
    distance.settle(start + second);
    const std::uint64_t was = distance.here(start + 2 * second);
    distance.learn(start + 2'000'000, start + second + 2'501'000, start + 2'001'000 + 1'000'000);
    distance.settle(start + second + 2'501'000);
    EXPECT_EQ(distance.here(start + 2 * second), was) << "narrower, and the same within it";
    distance.learn(start + 4'000'000, start + second + 4'000'000, start + 4'002'000);
    distance.settle(start + second + 4'000'000);
    EXPECT_EQ(distance.here(start + 2 * second), start + second + 1'000);
}

TEST(Distance, KeepsTheOrderWhenItChanges) {
    Distance distance;
    distance.learn(start, start + second + 500'000, start + 1'000'000);
    distance.settle(start + second + 500'000);
    EXPECT_EQ(distance.here(start + second + 900'000), start + 900'000);
    // The true distance is shown to be 0.4 ms longer.
    const std::uint64_t changed = start + second + 2'400'000;
    distance.learn(start + 2'000'000, changed, start + 2'002'000);
    distance.settle(changed);
    std::uint64_t last = 0;
    for (std::uint64_t at = start + second; at < start + second + 8'000'000; at += 10'000) {
        EXPECT_GE(distance.here(at), last) << at - start;
        last = distance.here(at);
    }
    EXPECT_EQ(distance.here(start + second + 900'000), start + 900'000) << "what was said of the past stays";
    EXPECT_EQ(distance.here(start + second + 8'000'000), start + 7'601'000);
}

TEST(Distance, FollowsAClockThatDriftsOrIsSet) {
    Distance distance;
    distance.learn(start, start + second + 1'000, start + 2'000);
    distance.settle(start + second);
    const std::uint64_t later = start + 100 * second;
    distance.learn(later, later + 2 * second + 50'000, later + 100'000);
    distance.settle(later + 2 * second);
    EXPECT_EQ(distance.here(later + 3 * second), later + second);
    const std::uint64_t earlier = start - 3600 * second;
    distance.learn(earlier, later + 3 * second + 50'000, earlier + 100'000);
    distance.settle(later + 3 * second);
    EXPECT_EQ(distance.here(later + 4 * second), earlier + second) << "this system's clock was set back";
}

TEST(Distance, OfOneClockIsNone) {
    Distance distance;
    distance.learn(start, start + 9'000, start + 10'000);
    distance.settle(start + 9'000);
    EXPECT_EQ(distance.here(start + 123), start + 123);
}

TEST(OtherClock, IsALineThroughTwoPoints) {
    OtherClock clock;
    EXPECT_EQ(clock.of(start), start) << "without one, the system's";
    clock.learn(start, 5'000);  // ticks, three for two nanoseconds
    EXPECT_EQ(clock.of(start + 100), 5'100U) << "one point says nothing of its rate";
    clock.learn(start + 2'000'000, 3'005'000);
    EXPECT_NEAR(static_cast<double>(clock.of(start + 1'000'000)), 1'505'000, 1);
    EXPECT_NEAR(static_cast<double>(clock.of(start + 4'000'000)), 6'005'000, 1);
    clock.forget();
    EXPECT_EQ(clock.of(start + 1), start + 1);
}

}  // namespace
}  // namespace barcuda::guest::cupti
