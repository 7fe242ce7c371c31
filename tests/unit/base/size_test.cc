// SPDX-License-Identifier: Apache-2.0
// size_test: numbers with units.
#include "base/size.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

// What is read, or the sentence.
std::string read(const std::string& text) {
    std::uint64_t size = 4711;
    const std::string error = read_size(text, size);
    EXPECT_TRUE(error.empty() || size == 4711) << text << ": refused, and read all the same";
    return error.empty() ? std::to_string(size) : error;
}

TEST(Size, IsANumberWithAUnitInEitherCase) {
    EXPECT_EQ(read("0"), "0");
    EXPECT_EQ(read("4096"), "4096");
    EXPECT_EQ(read("4096b"), "4096");
    EXPECT_EQ(read("4k"), "4096");
    EXPECT_EQ(read("4KB"), "4096");
    EXPECT_EQ(read("4KiB"), "4096");
    EXPECT_EQ(read("2G"), "2147483648");
    EXPECT_EQ(read("1.5G"), "1610612736");
    EXPECT_EQ(read("0.5k"), "512");
    EXPECT_EQ(read("1T"), "1099511627776");
}

TEST(Size, UpToTheLargestNumberAndNoFurther) {
    EXPECT_EQ(read("18446744073709551615"), "18446744073709551615");
    EXPECT_EQ(read("15E"), "17293822569102704640");
    for (const char* text : {"18446744073709551616", "99999999999999999999", "16E", "18014398509481984K", "16384P",
                             "100000000000000000000000000000000000000000000000000000000000", "15.9999999999E"})
        EXPECT_NE(
            read(text).find(std::string_view(text).find('.') == std::string_view::npos ? "too large" : "expected"),
            std::string::npos)
            << text << ": " << read(text);
}

TEST(Size, IsNothingElse) {
    for (const char* text : {"",    "abc", "G",   "1e30",  "5G=3",   "5 G", " 5",  "5GG",  "5GiBB", "5i",
                             "5BB", "1.G", ".5G", "1..5G", "1.5.5G", "nan", "inf", "0x10", "+5",    "5X"})
        EXPECT_NE(read(text).find("a number is expected"), std::string::npos) << text << ": " << read(text);
    EXPECT_EQ(read("-5"), "it cannot be negative");
    EXPECT_NE(read("1.5").find("whole number"), std::string::npos);
    EXPECT_NE(read("1.5b").find("whole number"), std::string::npos);
}

}  // namespace
}  // namespace barcuda
