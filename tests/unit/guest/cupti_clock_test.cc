// SPDX-License-Identifier: Apache-2.0
// cupti_clock_test.cc: times of the worker's clock, and of the program's own, become those of this system's.
#include "guest-allocator/cupti/clock.h"

#include <gtest/gtest.h>

namespace barcuda::guest::cupti {
namespace {

constexpr std::uint64_t second = 1'000'000'000, start = 1'700'000'000 * second;

TEST(Distance, IsWhatTheNarrowestBoundSays) {
    Distance distance;
    const std::int64_t apart = -5'000'000'000;
    const auto there = [&](std::uint64_t here) { return here + static_cast<std::uint64_t>(apart); };
    // The worker answered early within a wide bound, and in the middle of a narrow one.
    distance.learn(start, there(start + 10'000), start + 1'000'000);
    EXPECT_EQ(distance.width(), 1'000'000U);
    distance.learn(start + second, there(start + second + 10'000), start + second + 20'000);
    EXPECT_EQ(distance.here(there(start + 7)), start + 7);
    distance.learn(start + second, there(start + second + 400'000), start + second + 500'000);
    EXPECT_EQ(distance.width(), 20'000U) << "a wider bound tells nothing new";
    EXPECT_EQ(distance.here(there(start + 7)), start + 7);
}

TEST(Distance, FollowsAClockThatDrifts) {
    Distance distance;
    distance.learn(start, start + second + 1'000, start + 2'000);
    const std::uint64_t later = start + 100 * second;
    distance.learn(later, later + 2 * second + 50'000, later + 100'000);
    EXPECT_EQ(distance.here(later + 2 * second), later);
}

TEST(Distance, OfOneClockIsNone) {
    Distance distance;
    distance.learn(start, start + 9'000, start + 10'000);
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
