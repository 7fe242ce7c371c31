// SPDX-License-Identifier: Apache-2.0
// The books of a home of managed memory: what the CPU may touch, what is sent, how far one touch fetches ahead.
#include "guest-allocator/driver/managed/state/blocks.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "guest-allocator/driver/managed/state/advice.h"
#include "guest-allocator/driver/managed/state/habit.h"

namespace barcuda::guest::managed {
namespace {

using Span = Run;  // which in a test's body is gtest's own
using Runs = std::vector<std::pair<std::size_t, std::size_t>>;

struct Closed {
    Runs shut, sent;
    bool all;
};
Closed close(Blocks& blocks, Run within) {
    Closed c;
    c.all = blocks.close(
        within,
        [&](const Run& r) {
            c.shut.emplace_back(r.first, r.last);
            return true;
        },
        [&](const Run& r) { c.sent.emplace_back(r.first, r.last); });
    return c;
}

TEST(ManagedBlocks, BeginOnTheDevice) {
    Blocks blocks(10 * grain + 1);
    EXPECT_EQ(11u, blocks.count());
    EXPECT_FALSE(blocks.allows(0, false));
    EXPECT_FALSE(blocks.any_open());
    EXPECT_TRUE(close(blocks, {0, 11}).shut.empty());
}

TEST(ManagedBlocks, AreSentIfTheCpuMayHaveWrittenThem) {
    Blocks blocks(10 * grain);
    blocks.open({2, 4}, false);
    blocks.open({4, 6}, true);
    EXPECT_TRUE(blocks.allows(3, false));
    EXPECT_FALSE(blocks.allows(3, true));
    EXPECT_TRUE(blocks.allows(4, true));
    const Closed c = close(blocks, {0, 10});
    EXPECT_EQ((Runs{{2, 6}}), c.shut);
    EXPECT_EQ((Runs{{4, 6}}), c.sent);
    EXPECT_FALSE(blocks.any_open());
    EXPECT_FALSE(blocks.allows(4, false));
}

TEST(ManagedBlocks, StayWritableWhenTheyAreReadAgain) {
    Blocks blocks(4 * grain);
    blocks.open({0, 2}, true);
    blocks.open({0, 4}, false);
    EXPECT_TRUE(blocks.allows(1, true));
    EXPECT_EQ((Runs{{0, 2}}), close(blocks, {0, 4}).sent);
}

TEST(ManagedBlocks, AreSentOnceHoweverOftenTheyWereOpened) {
    Blocks blocks(100 * grain);
    for (std::size_t i : {7, 3, 5, 4, 6, 3, 7, 50}) blocks.open({i, i + 1}, true);
    EXPECT_EQ((Runs{{3, 8}, {50, 51}}), close(blocks, {0, 100}).sent);
}

TEST(ManagedBlocks, OutsideTheRangeStayOpen) {
    Blocks blocks(10 * grain);
    blocks.open({0, 10}, true);
    EXPECT_EQ((Runs{{4, 6}}), close(blocks, {4, 6}).sent);
    EXPECT_TRUE(blocks.allows(3, true) && !blocks.allows(4, false) && !blocks.allows(5, false) &&
                blocks.allows(6, true));
    EXPECT_EQ((Runs{{0, 4}, {6, 10}}), close(blocks, {0, 10}).sent);
}

TEST(ManagedBlocks, ThatCannotBeProtectedStayAsTheyWere) {
    Blocks blocks(4 * grain);
    blocks.open({0, 4}, true);
    int sent = 0;
    EXPECT_FALSE(blocks.close(
        {0, 2}, [](const Span&) { return false; }, [&](const Span&) { ++sent; }));
    EXPECT_EQ(0, sent);
    EXPECT_TRUE(blocks.allows(0, true));
    EXPECT_EQ((Runs{{0, 4}}), close(blocks, {0, 4}).sent);
}

TEST(ManagedBlocks, AreSentPieceByPiece) {
    const std::size_t count = 2 * most_ahead + 5;
    Blocks blocks(count * grain);
    blocks.open({0, count}, true);
    Runs shut, sent;
    const bool all = blocks.close(
        {0, count},
        [&](const Span& r) {
            EXPECT_EQ(shut.size(), sent.size());  // what was protected before is on its way
            if (shut.size() == 2) return false;
            shut.emplace_back(r.first, r.last);
            return true;
        },
        [&](const Span& r) { sent.emplace_back(r.first, r.last); });
    EXPECT_FALSE(all);
    EXPECT_EQ((Runs{{0, most_ahead}, {most_ahead, 2 * most_ahead}}), sent);
    EXPECT_FALSE(blocks.allows(2 * most_ahead - 1, false));
    EXPECT_EQ((Runs{{2 * most_ahead, count}}), close(blocks, {0, count}).sent);
}
TEST(ManagedBlocks, AreFetchedFurtherAheadTheLongerTheCpuGoesOn) {
    Blocks blocks(3000 * grain);
    std::size_t at = 0, longest = 0;
    std::vector<std::size_t> lengths;
    while (at < blocks.count()) {
        const Span run = blocks.fetch(at, 0);
        EXPECT_EQ(at, run.first);
        blocks.open(run, true);
        lengths.push_back(run.count());
        longest = std::max(longest, run.count());
        at = run.last;
    }
    EXPECT_EQ(1u, lengths[0]);
    EXPECT_EQ(2u, lengths[1]);
    EXPECT_EQ(4u, lengths[2]);
    EXPECT_EQ((std::size_t{32} << 20) / grain, longest);
    EXPECT_LT(lengths.size(), 20u);
}

TEST(ManagedBlocks, AreFetchedOneByOneHereAndThere) {
    Blocks blocks(1000 * grain);
    for (std::size_t at : {900, 10, 500, 700, 20}) EXPECT_EQ(1u, blocks.fetch(at, 0).count());
}

TEST(ManagedBlocks, OfSeveralWalksAreFetchedAheadForEach) {
    Blocks blocks(4000 * grain);
    std::size_t a = 0, b = 2000;
    for (int i = 0; i < 5; ++i) {
        const Span ra = blocks.fetch(a, 0), rb = blocks.fetch(b, 0);
        EXPECT_EQ(std::size_t{1} << i, ra.count());
        EXPECT_EQ(ra.count(), rb.count());
        a = ra.last;
        b = rb.last;
    }
}

TEST(ManagedBlocks, OnAnotherSideEndARun) {
    Blocks blocks(10 * grain);
    blocks.open({3, 4}, false);
    EXPECT_EQ(3u, blocks.fetch(0, 10).last);
    EXPECT_EQ(4u, blocks.fetch(3, 10).last);
    EXPECT_EQ(10u, blocks.fetch(4, 10).last);
}

// Against the plainest of models.
TEST(ManagedBlocks, KeepTheirBooksThroughWhateverComes) {
    std::mt19937 dice(1);
    Blocks blocks(64 * grain);
    std::vector<Side> model(64, Side::device);
    for (int step = 0; step < 20000; ++step) {
        Span run{dice() % 64, 0};
        run.last = run.first + 1 + dice() % (64 - run.first);
        if (const bool write = dice() % 2; dice() % 3) {
            blocks.open(run, write);
            for (std::size_t i = run.first; i < run.last; ++i)
                model[i] = std::max(model[i], write ? Side::host : Side::both);
        } else {
            std::vector<bool> sent(64, false), wanted(64, false);
            blocks.close(
                run, [](const Span&) { return true; },
                [&](const Span& r) {
                    for (std::size_t i = r.first; i < r.last; ++i) {
                        ASSERT_FALSE(sent[i]);
                        sent[i] = true;
                    }
                });
            for (std::size_t i = run.first; i < run.last; ++i)
                wanted[i] = std::exchange(model[i], Side::device) == Side::host;
            ASSERT_EQ(wanted, sent) << step;
        }
        for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(model[i], blocks[i]) << step;
    }
}

// A wait, behind which the CPU touches these blocks, unless they have come with it. True: they have.
bool round(Habit& habit, Span run, bool write = false) {
    const Habit::Expected came = habit.at_wait();
    if (!came.run.empty()) return true;
    if (!run.empty()) habit.touched(run, write);
    return false;
}
TEST(ManagedHabit, BringsWhatTheCpuHasTouchedBehindTwoWaits) {
    Habit habit;
    EXPECT_FALSE(round(habit, {3, 5}));
    EXPECT_FALSE(round(habit, {3, 5}));
    const auto [run, write] = habit.at_wait();
    EXPECT_EQ(3u, run.first);
    EXPECT_EQ(5u, run.last);
    EXPECT_FALSE(write);
}
TEST(ManagedHabit, JoinsTheTouchesBehindAWaitAndKnowsOfWrites) {
    Habit habit;
    for (int i = 0; i < 2; ++i) {
        EXPECT_FALSE(round(habit, {3, 4}));
        habit.touched({5, 6}, false);
        habit.written();
    }
    const auto [run, write] = habit.at_wait();
    EXPECT_EQ(3u, run.first);
    EXPECT_EQ(6u, run.last);
    EXPECT_TRUE(write);
}
TEST(ManagedHabit, BringsNothingIfTheTouchesDifferOrEndOrAreMany) {
    for (const Span second : {Span{4, 5}, Span{0, 0}}) {
        Habit habit;
        EXPECT_FALSE(round(habit, {3, 4}));
        EXPECT_FALSE(round(habit, second));
        EXPECT_FALSE(round(habit, {}));
    }
    Habit large;
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(round(large, {0, Habit::most + 1}));
}
TEST(ManagedHabit, AsksLessAndLessOftenAndEndsWhenTheCpuTouchesNothing) {
    Habit habit;
    int asked = 0;
    for (int i = 0; i < 1000; ++i) asked += !round(habit, {0, 1}, true);
    EXPECT_GE(asked, 8);
    EXPECT_LE(asked, 25);
    int brought = 0;
    for (int i = 0; i < 1000; ++i) brought += round(habit, {});
    EXPECT_LE(brought, 64);
    EXPECT_EQ(Habit::State::resting, habit.state());
}

TEST(ManagedAdvice, HoldsForThePartsThatItIsGivenFor) {
    Advice advice;
    const auto set = [](Hints& s) { s.read_mostly = true; };
    advice.set(100, 200, set);
    advice.set(200, 300, set);
    const auto count = [&](std::size_t begin, std::size_t end) {
        int yes = 0, no = 0;
        advice.each(begin, end, [&](const Hints& s) { ++(s.read_mostly ? yes : no); });
        return std::pair{yes > 0, no > 0};
    };
    EXPECT_EQ((std::pair{true, false}), count(100, 300));
    EXPECT_EQ((std::pair{true, true}), count(99, 300));
    EXPECT_EQ((std::pair{true, true}), count(100, 301));
    EXPECT_EQ((std::pair{false, true}), count(0, 100));
    advice.set(0, 1000, [](Hints& s) { s.read_mostly = false; });
    EXPECT_EQ((std::pair{false, true}), count(0, 1000));
}

}  // namespace
}  // namespace barcuda::guest::managed
