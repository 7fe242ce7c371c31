// SPDX-License-Identifier: Apache-2.0
// What may stand in the heap's environment variables.
#include "guest-allocator/heap/settings.h"

#include <gtest/gtest.h>

#include "tests/heap/support/unit_region.h"

using namespace barcuda::heap;

namespace {

TEST(Settings, TheModeIsOneOfThreeWords) {
    Mode mode = Mode::automatic;
    EXPECT_TRUE(parse_mode("always", mode));
    EXPECT_EQ(mode, Mode::always);
    EXPECT_TRUE(parse_mode("never", mode));
    EXPECT_EQ(mode, Mode::never);
    EXPECT_TRUE(parse_mode("auto", mode));
    EXPECT_EQ(mode, Mode::automatic);
    for (const char* wrong : {"", "Always", "on", "1", "always "}) EXPECT_FALSE(parse_mode(wrong, mode)) << wrong;
}

TEST(Settings, BytesAreADecimalNumberWithAnOptionalUnit) {
    std::size_t bytes = 7;
    EXPECT_TRUE(parse_bytes("0", bytes));
    EXPECT_EQ(bytes, 0u);
    EXPECT_TRUE(parse_bytes("65536", bytes));
    EXPECT_EQ(bytes, 65536u);
    EXPECT_TRUE(parse_bytes("64K", bytes));
    EXPECT_EQ(bytes, 65536u);
    EXPECT_TRUE(parse_bytes("3m", bytes));
    EXPECT_EQ(bytes, std::size_t{3} << 20);
    EXPECT_TRUE(parse_bytes("2G", bytes));
    EXPECT_EQ(bytes, std::size_t{2} << 30);
}

TEST(Settings, WhatIsNoNumberOrDoesNotFitIsRefused) {
    std::size_t bytes = 7;
    for (const char* wrong :
         {"", "K", "-1", "0x10", "1.5M", "64KB", " 1", "18446744073709551616", "18014398509481984K"})
        EXPECT_FALSE(parse_bytes(wrong, bytes)) << wrong;
    EXPECT_EQ(bytes, 7u);
}

}  // namespace
