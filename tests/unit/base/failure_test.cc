// SPDX-License-Identifier: Apache-2.0
// failure_test: a Failure is true if something went wrong, and has its text.
#include "base/failure.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace barcuda {
namespace {

Failure check(int number) {
    if (number < 0) return "it is negative";
    if (number > 9) return std::to_string(number) + " is too large";
    return {};
}

TEST(Failure, IsFalseWhenNothingWentWrong) {
    EXPECT_FALSE(check(5));
    EXPECT_EQ(check(5).text(), "");
}

TEST(Failure, IsTrueAndHasAText) {
    EXPECT_TRUE(check(-1));
    EXPECT_EQ(check(-1).text(), "it is negative");
    EXPECT_EQ(check(10).text(), "10 is too large");
}

TEST(Failure, IsNoStringAndNoNumber) {
    static_assert(!std::is_convertible_v<Failure, bool>);
    static_assert(!std::is_convertible_v<Failure, std::string>);
}

}  // namespace
}  // namespace barcuda
