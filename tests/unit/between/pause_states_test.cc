// SPDX-License-Identifier: Apache-2.0
// The states of a client that can be paused: the permitted transitions, and their names in messages.
#include <gtest/gtest.h>

#include <set>

#include "host-bridge/between/pause_states.h"

namespace barcuda {
namespace {

using enum Paused;
constexpr Paused all[] = {running, holding, held, away, returning, stuck};

std::set<Paused> successors(Paused of) {
    std::set<Paused> found;
    for (const Paused next : all)
        if (may_follow(of, next)) found.insert(next);
    return found;
}

TEST(PauseStates, AClientIsHeldBeforeItGoesAwayAndMayGiveUpOnTheWay) {
    EXPECT_EQ(successors(running), (std::set{holding}));
    EXPECT_EQ(successors(holding), (std::set{held, running}));
    EXPECT_EQ(successors(held), (std::set{away, running, stuck}));
    EXPECT_EQ(successors(away), (std::set{returning}));
    EXPECT_EQ(successors(returning), (std::set{running, stuck}));
}
TEST(PauseStates, NothingFollowsTheEnd) { EXPECT_TRUE(successors(stuck).empty()); }
TEST(PauseStates, EachHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (const Paused state : all) names.insert(name_of(state));
    EXPECT_EQ(names.size(), std::size(all));
    EXPECT_EQ(name_of(away), "away");
    EXPECT_EQ(name_of(static_cast<Paused>(77)), "unknown");
}
TEST(PauseStates, EachObstacleIsASentenceOfItsOwn) {
    std::set<std::string_view> texts;
    for (unsigned i = 0; i <= static_cast<unsigned>(Obstacle::unlock); ++i)
        texts.insert(text_of(static_cast<Obstacle>(i)));
    EXPECT_EQ(texts.size(), static_cast<std::size_t>(Obstacle::unlock) + 1);
    EXPECT_EQ(text_of(Obstacle::none), "");
}

}  // namespace
}  // namespace barcuda
