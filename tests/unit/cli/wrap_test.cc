// SPDX-License-Identifier: Apache-2.0
// Help texts on a terminal: no line is wider than it, if a word is not, and no word is lost.
#include "base/cli/wrap.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

TEST(WrapTest, ALineThatFitsStays) {
    EXPECT_EQ("Usage: barcuda [OPTIONS]\n\n  -h  help\n", wrapped("Usage: barcuda [OPTIONS]\n\n  -h  help\n", 24));
}

TEST(WrapTest, ADescriptionGoesOnUnderItsBegin) {
    EXPECT_EQ(
        "  --gpus TEXT     which GPUs the program\n"
        "                  gets, in its order\n",
        wrapped("  --gpus TEXT     which GPUs the program gets, in its order\n", 40));
}

TEST(WrapTest, ALineWithoutADescriptionGoesOnUnderItself) {
    EXPECT_EQ("  one two three\n  four\n", wrapped("  one two three four\n", 16));
    EXPECT_EQ("one two\nthree\n", wrapped("one two three\n", 9));
}

TEST(WrapTest, AWordThatIsWiderThanTheTerminalStaysWhole) {
    EXPECT_EQ("a\nlooooooooooong\nb\n", wrapped("a looooooooooong b\n", 5));
    EXPECT_EQ("looooooooooong\n", wrapped("looooooooooong\n", 5));
}

TEST(WrapTest, AGapThatLeavesNoRoomIsGivenUp) {
    EXPECT_EQ("  --option                   a word\n  and another one\n",
              wrapped("  --option                   a word and another one\n", 36));
}

TEST(WrapTest, WhatIsNoTerminalGetsWholeLines) {
    const std::string line = std::string(200, 'x') + " " + std::string(200, 'y') + "\n";
    EXPECT_EQ(line, wrapped(line, 0));
}

}  // namespace
}  // namespace barcuda
