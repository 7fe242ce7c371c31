// SPDX-License-Identifier: Apache-2.0
// How long a client's request for memory waits, and what is done for it meanwhile.
#include "host-bridge/bridge/asked.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace {

using namespace std::chrono_literals;
using barcuda::Asked;
using Step = Asked::Step;

using Facts = Asked::Facts;

constexpr Asked::Time start{100s};

Facts when(std::initializer_list<bool Facts::*> holds) {
    Facts facts;
    for (const auto fact : holds) facts.*fact = true;
    return facts;
}

TEST(Asked, IsRefusedAtOnceWhenReservesWouldNotHelp) {
    Asked request(1);
    EXPECT_EQ(request.next(when({&Facts::must_be_emptied, &Facts::reserved, &Facts::leaving}), start), Step::refuse);
}
TEST(Asked, IsRefusedWhenThereAreNoReserves) {
    Asked request(1);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves}), start), Step::refuse);
}
TEST(Asked, WaitsForMemoryThatIsBeingEmptied) {
    Asked request(1);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::must_be_emptied, &Facts::reserved}), start),
              Step::wait);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::must_be_emptied}), start + 1h), Step::wait);
}
TEST(Asked, EndsReservesOnceAndWaitsUntilTheyAreGone) {
    Asked request(1);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::reserved}), start), Step::end_reserves);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::leaving}), start + 1s), Step::wait);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::reserved, &Facts::leaving}), start + 2s),
              Step::wait);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::reserved}), start + 3s), Step::refuse);
}
TEST(Asked, WaitsForReservesThatEndAlready) {
    Asked request(1);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves, &Facts::leaving}), start), Step::wait);
    EXPECT_EQ(request.next(when({&Facts::fits_without_reserves}), start + 1s), Step::refuse);
}
TEST(Asked, DoesNotWaitForReservesForEver) {
    Asked request(1);
    const Facts held = when({&Facts::fits_without_reserves, &Facts::leaving});
    EXPECT_EQ(request.next(held, start), Step::wait);
    EXPECT_EQ(request.next(held, start + Asked::patience - 1ms), Step::wait);
    EXPECT_EQ(request.next(held, start + Asked::patience), Step::refuse);
}

}  // namespace
