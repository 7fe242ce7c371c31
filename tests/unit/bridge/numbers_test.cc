// SPDX-License-Identifier: Apache-2.0
// numbers_test: which build can go on with the clients of which bridge.
#include "host-bridge/bridge/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host-bridge/between/keeping.h"

namespace barcuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Numbers with(Numbers::What what, std::uint32_t oldest, std::uint32_t newest) {
    Numbers numbers = Numbers::of_this_build();
    numbers.of[what] = {oldest, newest};
    return numbers;
}

TEST(NumbersTest, AreReadAsTheyWereWritten) {
    const Numbers numbers = with(Numbers::link, 2, 3);
    EXPECT_THAT(numbers.words(), HasSubstr(".link2-3."));
    const auto read = Numbers::read(numbers.words());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->words(), numbers.words());
}
TEST(NumbersTest, OfABridgeFitIntoAMessageToItsKeeper) {
    Numbers numbers;
    for (auto& range : numbers.of) range = {999, 1000};
    keeping::Request request = keeping::request(keeping::Form::upgrade, numbers.words());
    request.milliseconds = 1;
    EXPECT_EQ(request.name_text(), numbers.words());
    EXPECT_TRUE(keeping::Request::read({reinterpret_cast<const char*>(&request), sizeof request}));
}
TEST(NumbersTest, ThatThisBuildDoesNotKnowAreRefused) {
    for (const char* words :
         {"colour3", "layout", "layout7x", "layout0", "link3-2", "link2-", "7", "layout7..packets1"})
        EXPECT_FALSE(Numbers::read(words)) << words;
    EXPECT_EQ(could_follow("colour3"), 1);
}
TEST(NumbersTest, ABuildGoesOnWithItsOwn) {
    const Numbers ours = Numbers::of_this_build();
    EXPECT_THAT(differences(ours, ours), IsEmpty());
    EXPECT_EQ(could_follow(ours.words()), keeping::could_follow);
}
TEST(NumbersTest, EachNumberThatDiffersIsNamedOnBothSides) {
    const Numbers ours = Numbers::of_this_build();
    EXPECT_THAT(
        differences(with(Numbers::layout, 1000, 1000), ours),
        ElementsAre(testing::StartsWith("the layout of the region has number 1000 in the running bridge, and ")));
    Numbers all = ours;
    for (auto& range : all.of) range = {1000, 1000};
    EXPECT_THAT(differences(all, ours), SizeIs(Numbers::count));
    EXPECT_EQ(could_follow(all.words()), 1);
}
TEST(NumbersTest, WhatIsNotToldIsNotCompared) {
    EXPECT_THAT(differences(Numbers(), Numbers::of_this_build()), IsEmpty());
    EXPECT_EQ(Numbers().words(), "");
}
// A build speaks to workers of its own link and of the one before.
TEST(NumbersTest, ALinkInUseFitsIfAllOfItIsKnown) {
    const Numbers knows_both = with(Numbers::link, 2, 3);
    EXPECT_THAT(differences(with(Numbers::link, 2, 2), knows_both), IsEmpty());
    EXPECT_THAT(differences(with(Numbers::link, 2, 3), knows_both), IsEmpty());
    EXPECT_THAT(differences(with(Numbers::link, 1, 2), knows_both),
                ElementsAre(HasSubstr("number 1 to 2 in the running "
                                      "bridge, and 2 to 3 in")));
    EXPECT_THAT(differences(with(Numbers::link, 3, 4), knows_both), SizeIs(1));
}

}  // namespace
}  // namespace barcuda
