// SPDX-License-Identifier: Apache-2.0
// failure_test: a Failure is true if something went wrong, and has its text; what is thrown can become one.
#include "base/failure.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "base/caught.h"

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

TEST(CaughtTest, WhatIsThrownIsAFailure) {
    EXPECT_EQ(caught([] { return Failure(); }).text(), "");
    EXPECT_EQ(caught([] { return Failure("the disk is full"); }).text(), "the disk is full");
    EXPECT_EQ(caught([]() -> Failure { throw std::bad_alloc(); }).text(), "no memory");
    EXPECT_EQ(caught([]() -> Failure { throw std::runtime_error("why"); }).text(), "why");
    EXPECT_EQ(caught([]() -> Failure { throw std::runtime_error(""); }).text(), "unknown") << "and none is no failure";
    EXPECT_EQ(caught([]() -> Failure { throw 1; }).text(), "unknown");
    const auto error = [](std::errc e) { return std::make_error_code(e); };
    EXPECT_EQ(
        caught([&]() -> Failure { throw std::system_error(error(std::errc::resource_unavailable_try_again)); }).text(),
        "no new thread");
    EXPECT_EQ(caught([&]() -> Failure { throw std::system_error(error(std::errc::io_error)); }).text(),
              "Input/output error");
}

}  // namespace
}  // namespace barcuda
