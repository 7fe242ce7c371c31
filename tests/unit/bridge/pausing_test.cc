// SPDX-License-Identifier: Apache-2.0
// Which clients are paused: what is ordered of a worker, what is refused before that, when a worker is given up, and
// which client returns next. The workers are played here.
#include <cuda.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "host-bridge/bridge/pausing.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t gibibyte = 1 << 30;

struct PausingTest : testing::Test {
    cards::Claim::Answer claims = cards::Claim::Answer::granted;
    std::uint64_t claimed = 0, out = 0;
    Pausing pausing{{},
                    {[this](std::uint32_t, int, std::uint64_t bytes) {
                         claimed = bytes;
                         return claims;
                     },
                     [this](std::uint32_t) { return out; }}};
    Orders orders[3];
    Pausing::Clock::time_point now{1h};
    std::optional<std::uint64_t> free = 100 * gibibyte;
    Pausing::Clock::time_point measured = now;
    std::vector<Pausing::News> news;

    static Pausing::Facts facts(std::uint64_t bytes = gibibyte, int device = 0) {
        Pausing::Facts facts;
        facts.memory = {{device, bytes}};
        return facts;
    }
    std::string pause(std::uint32_t slot, const Pausing::Facts& of, const Pausing::Terms& terms = {}) {
        return pausing.pause(slot, orders[slot], slot, of, terms, now).text();
    }
    void look() {
        news = pausing.look(
            [this](int, Pausing::Clock::time_point after) { return measured >= after ? free : std::nullopt; }, now);
    }
    Paused wanted(std::uint32_t slot) const { return static_cast<Paused>(orders[slot].wanted); }
    bool ordered(std::uint32_t slot) const { return orders[slot].order != orders[slot].done; }
    void worker(std::uint32_t slot, Paused is, Obstacle obstacle = Obstacle::none) {
        Orders& o = orders[slot];
        o.is = static_cast<std::uint32_t>(is);
        o.obstacle = static_cast<std::uint32_t>(obstacle);
        o.done = o.order;
    }
    void obeys(std::uint32_t slot) {
        ASSERT_TRUE(ordered(slot));
        worker(slot, wanted(slot));
        look();
    }
    void goes_away(std::uint32_t slot, std::uint64_t bytes = gibibyte, int device = 0) {
        ASSERT_EQ("", pause(slot, facts(bytes, device)));
        obeys(slot);
        ASSERT_EQ(Paused::away, pausing.state(slot));
    }
    void resume(std::uint32_t slot) {
        ASSERT_EQ("", pausing.resume(slot, now).text());
        measured = now;
        look();
    }
};

TEST_F(PausingTest, AClientOfWhichNothingWasOrderedRuns) {
    EXPECT_EQ(Paused::running, pausing.state(0));
    EXPECT_FALSE(pausing.busy());
    EXPECT_FALSE(pausing.since(0));
    EXPECT_EQ("", pausing.resume(0, now).text());
    EXPECT_FALSE(ordered(0));
}
TEST_F(PausingTest, AWorkerIsToldWhatIsWantedAndHowLongItMayTake) {
    EXPECT_EQ("", pause(0, facts(), {.within = 7s}));
    EXPECT_TRUE(ordered(0));
    EXPECT_EQ(Paused::away, wanted(0));
    EXPECT_EQ(7000u, orders[0].within);
    EXPECT_TRUE(pausing.is_busy(0));
    obeys(0);
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::paused, news[0].what);
    EXPECT_EQ(Paused::away, pausing.state(0));
    EXPECT_EQ(now, *pausing.since(0));
    EXPECT_FALSE(pausing.busy());
}
TEST_F(PausingTest, WithItsMemoryKeptAClientIsHeldAndTakesNoneOfTheHosts) {
    EXPECT_EQ("", pause(0, facts(), {.keep_memory = true}));
    EXPECT_EQ(Paused::held, wanted(0));
    obeys(0);
    EXPECT_EQ(Paused::held, pausing.state(0));
    EXPECT_EQ(0u, pausing.away_bytes());
}
TEST_F(PausingTest, ToPauseAPausedClientIsNothingNew) {
    goes_away(0);
    EXPECT_EQ("", pause(0, facts()));
    EXPECT_EQ("", pause(0, facts(), {.keep_memory = true}));
    EXPECT_FALSE(ordered(0));
}
TEST_F(PausingTest, WhileAnOrderIsUnderWayNoOtherIsGiven) {
    EXPECT_EQ("", pause(0, facts()));
    EXPECT_NE("", pause(0, facts()));
    EXPECT_NE("", pausing.resume(0, now).text());
    EXPECT_EQ(1u, orders[0].order);
}
TEST_F(PausingTest, WhatStandsInTheWorkersWayIsNamedAndTheClientRuns) {
    EXPECT_EQ("", pause(0, facts()));
    worker(0, Paused::running, Obstacle::work);
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::refused, news[0].what);
    EXPECT_EQ(text_of(Obstacle::work), news[0].text);
    EXPECT_EQ(text_of(Obstacle::work), pausing.refusal(0).text());
    EXPECT_EQ(Paused::running, pausing.state(0));
    EXPECT_EQ(0u, pausing.away_bytes(0));
    EXPECT_FALSE(pausing.since(0));
    EXPECT_EQ("", pausing.resume(0, now).text());
    EXPECT_EQ("", pausing.refusal(0).text()) << "the pause was refused, and not the resume";
}
TEST_F(PausingTest, WhatTheDriverDoesNotSupportIsRememberedAndNotTriedAgain) {
    EXPECT_EQ("", pause(0, facts()));
    worker(0, Paused::running, Obstacle::checkpoint);
    orders[0].result = CUDA_ERROR_NOT_SUPPORTED;  // as where MIG or MPS is on
    look();
    const std::string why = pausing.refusal(0).text();
    EXPECT_NE(std::string::npos, why.find("801")) << why;
    EXPECT_EQ(why, pause(0, facts()));
    EXPECT_EQ(why, pausing.refusal(0).text());
    EXPECT_FALSE(ordered(0));
    EXPECT_EQ("", pause(0, facts(), {.keep_memory = true})) << "which needs nothing of the driver";
    EXPECT_TRUE(ordered(0));
    pausing.forget(0);
    orders[0] = {};
    EXPECT_EQ("", pause(0, facts())) << "the slot's next client has another worker";
}
TEST_F(PausingTest, SoIsADriverWithoutACheckpoint) {
    EXPECT_EQ("", pause(0, facts()));
    worker(0, Paused::running, Obstacle::no_checkpoint);
    look();
    EXPECT_EQ(text_of(Obstacle::no_checkpoint), pause(0, facts()));
    EXPECT_FALSE(ordered(0));
}
TEST_F(PausingTest, WhatMayBeBetterNextTimeIsTriedAgain) {
    for (const auto& [obstacle, result] :
         {std::pair(Obstacle::work, 0), std::pair(Obstacle::lock, int{CUDA_ERROR_NOT_READY}),
          std::pair(Obstacle::checkpoint, int{CUDA_ERROR_OUT_OF_MEMORY})}) {
        EXPECT_EQ("", pause(0, facts()));
        worker(0, Paused::running, obstacle);
        orders[0].result = result;
        look();
        EXPECT_NE("", pausing.refusal(0).text());
    }
}
TEST_F(PausingTest, AWrapperKeepsTheMemoryOnTheGpu) {
    Pausing::Facts of = facts();
    of.wrapped = true;
    EXPECT_NE(std::string::npos, pause(0, of).find("wrapper"));
    EXPECT_FALSE(ordered(0));
    EXPECT_EQ("", pause(0, of, {.keep_memory = true}));
}
TEST_F(PausingTest, SoDoesMemoryThatIsSharedAndTheOtherClientIsNamed) {
    Pausing::Facts of = facts();
    of.shares_with = 2;
    EXPECT_NE(std::string::npos, pause(0, of).find("channel 2"));
    of.shares_with = 0;
    EXPECT_NE(std::string::npos, pause(0, of).find("other processes"));
    EXPECT_FALSE(ordered(0));
    EXPECT_EQ("", pause(0, of, {.keep_memory = true}));
}
TEST_F(PausingTest, AllThatAreAwayTogetherHaveTheirLimit) {
    const Pausing::Terms terms{.limit = 3 * gibibyte};
    EXPECT_EQ("", pause(0, facts(2 * gibibyte), terms));
    const std::string why = pause(1, facts(2 * gibibyte), terms);
    EXPECT_NE(std::string::npos, why.find("guest-paused-memory")) << why;
    EXPECT_FALSE(ordered(1));
    EXPECT_EQ("", pause(2, facts(gibibyte), terms));
    EXPECT_EQ(3 * gibibyte, pausing.away_bytes());
}
TEST_F(PausingTest, AClientReturnsWhereThereIsRoom) {
    goes_away(0);
    resume(0);
    EXPECT_EQ(Paused::running, wanted(0));
    obeys(0);
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::resumed, news[0].what);
    EXPECT_EQ(Paused::running, pausing.state(0));
    EXPECT_FALSE(pausing.since(0));
    EXPECT_EQ(0u, pausing.away_bytes());
}
TEST_F(PausingTest, WithoutRoomItsReturnIsRefusedAndNeverTried) {
    goes_away(0, 2 * gibibyte);
    free = 2 * gibibyte - 1;
    resume(0);
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::refused, news[0].what);
    EXPECT_FALSE(ordered(0));
    EXPECT_EQ(Paused::away, pausing.state(0));
    EXPECT_FALSE(pausing.busy());
    free = 2 * gibibyte;
    resume(0);
    EXPECT_TRUE(ordered(0));
}
TEST_F(PausingTest, TheRoomIsMeasuredAfterTheReturnWasAskedFor) {
    goes_away(0);
    now += 1s;
    EXPECT_EQ("", pausing.resume(0, now).text());
    look();
    EXPECT_FALSE(ordered(0));
    EXPECT_TRUE(pausing.waits_for_room());
    measured = now;
    look();
    EXPECT_TRUE(ordered(0));
}
TEST_F(PausingTest, AHeldClientNeedsNoRoom) {
    EXPECT_EQ("", pause(0, facts(), {.keep_memory = true}));
    obeys(0);
    free = 0;
    resume(0);
    EXPECT_TRUE(ordered(0));
}
TEST_F(PausingTest, OneReturnsAtATimeToEachGpu) {
    goes_away(0);
    goes_away(1);
    goes_away(2, gibibyte, 1);
    resume(0);
    resume(1);
    resume(2);
    EXPECT_TRUE(ordered(0));
    EXPECT_FALSE(ordered(1));
    EXPECT_TRUE(ordered(2)) << "it returns to another GPU";
    now += 1s;
    look();
    obeys(0);
    EXPECT_FALSE(ordered(1)) << "the room behind the first is not measured yet";
    measured = now;
    look();
    EXPECT_TRUE(ordered(1));
}
TEST_F(PausingTest, ARestoreThatFailsIsTheClientsEnd) {
    goes_away(0);
    resume(0);
    worker(0, Paused::stuck, Obstacle::restore);
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::lost, news[0].what);
    EXPECT_EQ(text_of(Obstacle::restore), news[0].text);
}
TEST_F(PausingTest, AWorkerThatHasBegunAndNeverAnswersIsGivenUp) {
    EXPECT_EQ("", pause(0, facts(8 * gibibyte), {.within = 10s}));
    orders[0].is = static_cast<std::uint32_t>(Paused::held);
    now += 30s;
    look();
    EXPECT_TRUE(news.empty()) << "8 GiB take time";
    now += 60s;
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::lost, news[0].what);
}
TEST_F(PausingTest, TheOrderOfAWorkerThatDoesNotBeginIsTakenBackAndTheClientLives) {
    EXPECT_EQ("", pause(0, facts(), {.within = 10s}));
    now += 10s;
    look();
    EXPECT_TRUE(news.empty());
    now += 2s;
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::refused, news[0].what);
    EXPECT_EQ(Paused::running, wanted(0));
    EXPECT_EQ(2u, orders[0].order);
    EXPECT_FALSE(pausing.busy());
    goes_away(0);
}
TEST_F(PausingTest, OfAClientThatIsGoneNothingIsLeft) {
    goes_away(0);
    pausing.forget(0);
    EXPECT_EQ(Paused::running, pausing.state(0));
    EXPECT_EQ(0u, pausing.away_bytes());
}
TEST_F(PausingTest, AWorkerThatSaysNonsenseHurtsNobodyElse) {
    EXPECT_EQ("", pause(0, facts(~std::uint64_t{0})));
    EXPECT_EQ("", pause(1, facts(~std::uint64_t{0})));
    EXPECT_EQ(~std::uint64_t{0}, pausing.away_bytes());
    orders[0].is = 77;
    orders[0].obstacle = 99;
    orders[0].done = orders[0].order;
    look();
    EXPECT_EQ(Paused::running, pausing.state(0));
}

// ---- a bridge that is killed before any of its stores, and the next one
struct KeptPausesTest : PausingTest {
    struct Killed {};
    static inline unsigned stores_left = 0;
    std::vector<Twice<KeptPause>> books{3};
    std::optional<Pausing> bridge;

    void begin() {
        std::ranges::fill(orders, Orders{});
        for (auto& book : books) book.set({});
        bridge.emplace(Part<Twice<KeptPause>>{books});
    }
    void come_back() {
        bridge.emplace(Part<Twice<KeptPause>>{books, true});
        bridge->restore(0, orders[0], now);
    }
    template <class Action> bool killed(unsigned n, const Action& action) {
        stores_left = n;
        records::before_store = [] {
            if (stores_left-- == 0) throw Killed();
        };
        try {
            action();
        } catch (const Killed&) {
            records::before_store = nullptr;
            return true;
        }
        records::before_store = nullptr;
        return false;
    }
    void look() {
        news = bridge->look([this](int, auto) { return free; }, now);
    }
    void goes_away() {
        ASSERT_EQ("", bridge->pause(0, orders[0], 0, facts(), {}, now).text());
        worker(0, Paused::away);
        look();
    }
};
TEST_F(KeptPausesTest, AnOrderIsGivenOnceOrWasNeverAsked) {
    unsigned n = 0, given = 0;
    for (bool was_killed = true; was_killed; ++n) {
        begin();
        was_killed = killed(n, [&] { EXPECT_FALSE(bridge->pause(0, orders[0], 0, facts(), {}, now)); });
        come_back();
        if (!bridge->busy()) {
            EXPECT_EQ(0u, orders[0].order);
            EXPECT_EQ(0u, bridge->away_bytes());
            continue;
        }
        ++given;
        EXPECT_EQ(1u, orders[0].order);
        EXPECT_EQ(Paused::away, wanted(0));
        EXPECT_EQ(gibibyte, bridge->away_bytes());
        worker(0, Paused::away);
        look();
        EXPECT_EQ(Paused::away, bridge->state(0));
    }
    EXPECT_GT(n, 3u);
    EXPECT_GT(given, 0u);
}
TEST_F(KeptPausesTest, WhatAWorkerHasDoneIsHeardOnce) {
    unsigned n = 0;
    for (bool was_killed = true; was_killed; ++n) {
        begin();
        ASSERT_EQ("", bridge->pause(0, orders[0], 0, facts(), {}, now).text());
        worker(0, Paused::away);
        was_killed = killed(n, [&] { look(); });
        come_back();
        look();
        EXPECT_EQ(was_killed ? 1u : 0u, news.size());
        EXPECT_EQ(Paused::away, bridge->state(0));
        EXPECT_EQ(gibibyte, bridge->away_bytes(0));
        EXPECT_TRUE(bridge->since(0));
        EXPECT_FALSE(bridge->busy());
    }
    EXPECT_GT(n, 3u);
}
TEST_F(KeptPausesTest, AClientThatIsAwayReturnsWhicheverBridgeItAsks) {
    unsigned n = 0;
    for (bool was_killed = true; was_killed; ++n) {
        begin();
        goes_away();
        was_killed = killed(n, [&] {
            EXPECT_FALSE(bridge->resume(0, now));
            look();
        });
        come_back();
        EXPECT_EQ("", bridge->is_busy(0) ? "" : bridge->resume(0, now).text());
        look();
        ASSERT_EQ(Paused::running, wanted(0));
        EXPECT_EQ(2u, orders[0].order);
        worker(0, Paused::running);
        look();
        EXPECT_EQ(Paused::running, bridge->state(0));
        EXPECT_EQ(0u, bridge->away_bytes());
        bridge->forget(0);
        come_back();
        EXPECT_FALSE(bridge->since(0));
    }
    EXPECT_GT(n, 6u);
}

// ---- shared cards

TEST_F(PausingTest, AClientReturnsWhenOthersHaveGivenWhatItNeeds) {
    goes_away(0, 3 * gibibyte);
    EXPECT_FALSE(pausing.returns(0));
    out = gibibyte;  // of that, in the store
    free = 2 * gibibyte;
    claims = cards::Claim::Answer::waits;
    resume(0);
    EXPECT_EQ(2 * gibibyte, claimed);
    EXPECT_FALSE(ordered(0));
    EXPECT_TRUE(pausing.returns(0));
    now += 9s;
    claims = cards::Claim::Answer::granted;
    look();
    EXPECT_FALSE(ordered(0)) << "what is free was measured before others gave";
    measured = now;
    look();
    EXPECT_TRUE(ordered(0));
    EXPECT_TRUE(pausing.returns(0)) << "until its worker has it";
    obeys(0);
    EXPECT_FALSE(pausing.returns(0));
}
TEST_F(PausingTest, AClientStaysPausedWhereOthersDoNotGive) {
    goes_away(0);
    claims = cards::Claim::Answer::waits;
    resume(0);
    EXPECT_TRUE(news.empty());
    now += 10s;
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::refused, news[0].what);
    EXPECT_NE(std::string::npos, news[0].text.find("other programs have the memory of GPU 0"));
    EXPECT_FALSE(pausing.returns(0));
    EXPECT_EQ(Paused::away, pausing.state(0));
    claims = cards::Claim::Answer::refused;
    resume(0);
    EXPECT_EQ(1u, news.size()) << "at once: the card never has so much";
    claims = cards::Claim::Answer::granted;
    resume(0);
    EXPECT_TRUE(ordered(0));
}

// ---- parked by the bridge itself

TEST_F(PausingTest, AParkedClientThatIsToBeHeldComesBackForThat) {
    ASSERT_EQ("", pause(0, facts(), {.parks = true}));
    obeys(0);
    claims = cards::Claim::Answer::waits;
    ASSERT_EQ("", pause(0, facts(), {.keep_memory = true, .within = 10s}));
    look();
    EXPECT_TRUE(pausing.is_busy(0));
    now += 10s;
    look();
    ASSERT_EQ(1u, news.size());
    EXPECT_EQ(Pausing::News::refused, news[0].what);
    EXPECT_NE(std::string::npos, news[0].text.find("it is parked"));
    EXPECT_TRUE(pausing.is_parked(0)) << "all is as it was";
    EXPECT_FALSE(pausing.is_busy(0));
    claims = cards::Claim::Answer::granted;
    ASSERT_EQ("", pause(0, facts(), {.keep_memory = true, .within = 10s}));
    measured = now;
    look();
    ASSERT_TRUE(ordered(0));
    EXPECT_EQ(Paused::running, wanted(0));
    obeys(0);
    EXPECT_EQ(Paused::held, wanted(0));
    EXPECT_TRUE(ordered(0));
    obeys(0);
    EXPECT_EQ(Paused::held, pausing.state(0));
    EXPECT_FALSE(pausing.is_parked(0));
}
TEST_F(PausingTest, AParkedClientReturnsWhenItIsUsedAndWaitsForRoomAsLongAsItTakes) {
    ASSERT_EQ("", pause(0, facts(), {.parks = true}));
    EXPECT_TRUE(pausing.is_parked(0));
    obeys(0);
    ASSERT_EQ(Paused::away, pausing.state(0));
    claims = cards::Claim::Answer::refused;
    pausing.unpark(0, now);
    now += 1h;
    look();
    EXPECT_TRUE(news.empty()) << "a command waits: there is no other way";
    claims = cards::Claim::Answer::granted;
    free = 0;
    measured = now;
    look();
    EXPECT_TRUE(news.empty());
    EXPECT_FALSE(ordered(0));
    free = gibibyte;
    now += 1s;
    measured = now;
    look();
    EXPECT_TRUE(ordered(0));
    obeys(0);
    EXPECT_EQ(Paused::running, pausing.state(0));
    EXPECT_FALSE(pausing.is_parked(0));
    pausing.unpark(0, now);
    EXPECT_FALSE(pausing.busy());
}
TEST_F(PausingTest, AResumeLeavesAParkedClientAndAPauseKeepsItAway) {
    ASSERT_EQ("", pause(0, facts(), {.parks = true}));
    obeys(0);
    resume(0);
    EXPECT_EQ(Paused::away, pausing.state(0)) << "it returns by itself";
    EXPECT_EQ("", pause(0, facts()));
    EXPECT_FALSE(pausing.is_parked(0));
    pausing.unpark(0, now);
    EXPECT_FALSE(pausing.busy()) << "an operator has paused it";
    resume(0);
    EXPECT_TRUE(ordered(0));
}
TEST_F(PausingTest, AClientThatCannotBeParkedRuns) {
    ASSERT_EQ("", pause(0, facts(), {.parks = true}));
    worker(0, Paused::running, Obstacle::work);
    look();
    EXPECT_FALSE(pausing.is_parked(0));
    EXPECT_EQ(Paused::running, pausing.state(0));
}

}  // namespace
}  // namespace barcuda
