// SPDX-License-Identifier: Apache-2.0
// wait_test: how a waiter behaves, told by a clock that the test owns. Nothing here takes time.
#include "shm-device/queue/wait.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "guest-allocator/client/patience.h"

namespace barcuda {
namespace {

// Each act costs what it costs in life, and is written down.
struct World {
    std::uint64_t clock = 0;
    std::string acts;  // p(ause), y(ield), n(ap), s(leep), without repeats
    std::vector<std::uint64_t> naps;

    void did(char act, std::uint64_t cost) {
        if (acts.empty() || acts.back() != act) acts += act;
        clock += cost;
    }
};
struct In {
    World* w;
    std::uint64_t now() const { return w->clock; }
    void pause() { w->did('p', 40); }
    void yield() { w->did('y', 500); }
    void nap(std::uint64_t ns) {
        w->naps.push_back(ns);
        w->did('n', ns);
    }
    void sleep(std::uint64_t ns) { w->did('s', ns); }
};
constexpr Pace test_pace{.spin = 10, .yield = 100, .nap_min = 50, .nap_max = 400, .ask = 1000};
const auto never = [] { return false; };

TEST(Wait, WhatIsDoneCostsNothing) {
    World w;
    EXPECT_EQ(wait(
                  test_pace, [] { return true; }, never, In{&w}),
              Waited::done);
    EXPECT_EQ(w.acts, "");
    EXPECT_EQ(w.clock, 0u);
}
TEST(Wait, ItSpinsThenYieldsThenNaps) {
    World w;
    EXPECT_EQ(wait(
                  test_pace, [&] { return w.clock > 1'000'000; }, never, In{&w}),
              Waited::done);
    EXPECT_EQ(w.acts, "pyn");
}
TEST(Wait, AWaitThatBeginsAgainSpinsAgain) {
    World w;
    Waiter waiter(test_pace, In{&w});
    while (w.acts != "pyn") waiter.turn();
    EXPECT_FALSE(waiter.is_spinning());
    waiter.begin_again();
    EXPECT_TRUE(waiter.is_spinning());
    while (w.acts != "pynpyn") waiter.turn();
    EXPECT_EQ(w.naps.back(), 50'000u);
}
TEST(Wait, AQuickAnswerIsMetSpinning) {
    World w;
    EXPECT_EQ(wait(
                  test_pace, [&] { return w.clock > 8'000; }, never, In{&w}),
              Waited::done);
    EXPECT_EQ(w.acts, "p");
}
TEST(Wait, NapsGrowToTheirBound) {
    World w;
    wait(
        test_pace, [&] { return w.naps.size() == 6; }, never, In{&w});
    EXPECT_EQ(w.naps, (std::vector<std::uint64_t>{50'000, 100'000, 200'000, 400'000, 400'000, 400'000}));
}
TEST(Wait, WhoCanBeWokenSleepsOnceItsNapsHaveGrown) {
    World w;
    Pace sleeper = test_pace;
    sleeper.sleep = 50'000;
    wait(
        sleeper, [&] { return w.clock > 200'000'000; }, never, In{&w});
    EXPECT_EQ(w.acts, "pyns");
    EXPECT_EQ(w.naps, (std::vector<std::uint64_t>{50'000, 100'000, 200'000, 400'000}));
}
TEST(Wait, WhoSleepsAsksAboutThePeerToo) {
    World w;
    Pace sleeper = test_pace;
    sleeper.sleep = 50'000;
    EXPECT_EQ(wait(
                  sleeper, never, [&] { return w.clock > 500'000'000; }, In{&w}),
              Waited::dead);
}
TEST(Wait, WithoutSpinItGivesWayAtOnce) {
    World w;
    Pace one_processor = test_pace;
    one_processor.spin = 0;
    wait(
        one_processor, [&] { return w.clock > 5'000; }, never, In{&w});
    EXPECT_EQ(w.acts, "y");
}
TEST(Wait, WhoWaitsForTheDeadIsTold) {
    World w;
    EXPECT_EQ(wait(
                  test_pace, never, [&] { return w.clock > 5'000'000; }, In{&w}),
              Waited::dead);
}
TEST(Wait, WhatWasDoneBeforeTheDeathCounts) {
    World w;
    bool died = false;
    EXPECT_EQ(wait(
                  test_pace, [&] { return died; },  // seen only after the peer was asked about
                  [&] { return died = true; }, In{&w}),
              Waited::done);
}
TEST(Wait, ThePeerIsAskedAboutSeldom) {
    World w;
    int asked = 0;
    wait(
        test_pace, [&] { return w.clock > 10'000'000; },
        [&] {
            ++asked;
            return false;
        },
        In{&w});
    EXPECT_GE(asked, 1);
    EXPECT_LE(asked, 10);
}
TEST(Wait, ThePeerIsNotAskedAboutWhileSpinning) {
    World w;
    int asked = 0;
    wait(
        test_pace, [&] { return w.clock > 9'000; },
        [&] {
            ++asked;
            return false;
        },
        In{&w});
    EXPECT_EQ(asked, 0);
}
TEST(Wait, AWaitMayBeTakenTurnByTurn) {
    World w;
    int asked = 0;
    for (Waiter<In> waiter(test_pace, In{&w}); w.clock < 3'000'000; waiter.turn()) asked += waiter.should_ask();
    EXPECT_EQ(w.acts, "pyn");
    EXPECT_GE(asked, 1);
    EXPECT_LE(asked, 3);
}

// ---- more threads than processors
constexpr std::uint64_t slice = 3'000'000;  // how long a kernel gives others the processor
struct InACrowd : In {
    void yield() { w->did('y', slice); }
};
constexpr Pace attentive{.spin = 1000, .yield = 100'000, .nap_min = 50, .nap_max = 400, .ask = 1000, .absence = 1000};

TEST(Wait, AYieldThatLastsASliceMakesTheWaiterNap) {
    World w;
    Waiter waiter(attentive, InACrowd{{&w}});
    while (w.naps.size() < 3) waiter.turn();
    EXPECT_EQ(w.acts, "pyn");
    EXPECT_LT(w.clock, 2 * slice);
    EXPECT_FALSE(waiter.is_spinning());
}
TEST(Wait, AWaiterThatLosesItsProcessorNapsAtOnce) {
    World w;
    Waiter waiter(attentive, In{&w});
    for (unsigned turns = 0; turns < 100; ++turns) waiter.turn();
    EXPECT_EQ(w.acts, "p");
    w.clock += slice;
    while (w.naps.empty()) waiter.turn();
    EXPECT_EQ(w.acts, "pn");
}
TEST(Wait, AWaitThatBeginsAgainHasAProcessorAgain) {
    World w;
    Waiter waiter(attentive, In{&w});
    for (unsigned turns = 0; turns < 100; ++turns) waiter.turn();
    w.clock += slice;
    while (w.naps.empty()) waiter.turn();
    waiter.begin_again();
    while (w.acts != "pnpy") waiter.turn();
}
TEST(Wait, WhatTheWaiterItselfDoesWhenItAsksIsNoAbsence) {
    World w;
    Waiter waiter(attentive, In{&w});
    for (unsigned asked = 0; asked < 5; waiter.turn())
        if (waiter.should_ask()) {
            ++asked;
            w.clock += slice;
        }
    EXPECT_EQ(w.acts, "py");
}
TEST(Wait, AWaiterWithoutALimitOfAbsenceStaysAwake) {
    World w;
    Pace careless = attentive;
    careless.absence = 0;
    Waiter waiter(careless, InACrowd{{&w}});
    while (w.clock < 90'000'000) waiter.turn();
    EXPECT_EQ(w.acts, "py");
}

TEST(Wait, TheRealOneWaitsToo) {
    int looks = 0;
    EXPECT_EQ(wait(
                  {.spin = 1, .yield = 1, .nap_min = 1, .nap_max = 1, .ask = 1}, [&] { return ++looks == 200; }, never),
              Waited::done);
    EXPECT_EQ(looks, 200);
}

// ---- the guest's paces
using guest::pace_of;
using guest::Waits;

std::string acts_of(const Pace& pace, std::uint64_t nanoseconds) {
    World w;
    Waiter<In> waiter(pace, In{&w});
    while (w.clock < nanoseconds) waiter.turn();
    return w.acts;
}

TEST(Pace, AThreadStaysAwakeForATrainingStep) {
    EXPECT_EQ(acts_of(pace_of(Waits::as_usual, false, false), 200'000'000), "py");
    EXPECT_EQ(acts_of(pace_of(Waits::as_usual, false, true), 200'000'000), "py");
    EXPECT_EQ(acts_of(pace_of(Waits::as_usual, false, false), 300'000'000), "pyns");
}
TEST(Pace, OfTwoProcessorsTheWorkerGetsOneSoon) {
    EXPECT_EQ(acts_of(pace_of(Waits::as_usual, true, false), 10'000'000), "pyns");
    EXPECT_EQ(acts_of(pace_of(Waits::as_usual, true, true), 10'000'000), "py");
}
TEST(Pace, AProgramMayHaveItsThreadsAwakeOrAsleep) {
    EXPECT_EQ(acts_of(pace_of(Waits::awake, true, false), 2'000'000'000), "py");
    EXPECT_EQ(acts_of(pace_of(Waits::asleep, false, false), 5'000'000), "pns");
    EXPECT_EQ(acts_of(pace_of(Waits::asleep, true, false), 5'000'000), "pns");
    EXPECT_EQ(acts_of(pace_of(Waits::unserved, false, false), 1'000'000), "pns");  // soon: others need the processor
}

TEST(Pace, WhereProcessorsAreShortOnlyAProgramThatAskedStaysAwake) {
    const auto acts = [](Waits waits) {
        World w;
        Waiter waiter(pace_of(waits, false, false), InACrowd{{&w}});
        while (w.clock < 100'000'000) waiter.turn();
        return w.acts;
    };
    EXPECT_EQ(acts(Waits::as_usual), "pyns");
    EXPECT_EQ(acts(Waits::awake), "py");
}

}  // namespace
}  // namespace barcuda
