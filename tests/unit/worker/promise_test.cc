// SPDX-License-Identifier: Apache-2.0
// promise_test: what a worker holds of a card is never more than its bridge has promised, in all orders in which both
// may go on, and with memory that shows stores late (tests/unit/support/model.h).
#include "host-bridge/worker/memory/promise.h"

#include <gtest/gtest.h>

#include <map>

#include "host-bridge/worker/memory/promised_pieces.h"
#include "tests/unit/support/model.h"
#include "tests/unit/support/model_fixture.h"
#include "tests/unit/support/model_pieces.h"

namespace barcuda {
namespace {

// ---- one side alone

struct PromiseTest : testing::Test {
    CardPlace place;
    Promise promise{place};

    void grant(std::uint64_t bytes) {  // as a bridge does
        place.promised = bytes;
        place.granted = place.wish;
    }
    void have(std::uint64_t bytes) {
        promise.wish(bytes);
        grant(place.needs);
        EXPECT_EQ(Promise::Answer::granted, promise.answer());
        promise.take(bytes);
    }
};

TEST_F(PromiseTest, NothingFitsBeforeAWishWasGranted) {
    EXPECT_FALSE(promise.fits(1));
    EXPECT_TRUE(promise.wish(mib));
    EXPECT_EQ(64 * mib, place.needs) << "so that small allocations seldom ask";
    EXPECT_EQ(1u, place.wish);
    EXPECT_EQ(0u, place.returns);
    EXPECT_EQ(Promise::Answer::waits, promise.answer());
    grant(64 * mib);
    EXPECT_EQ(Promise::Answer::granted, promise.answer());
    EXPECT_EQ(64 * mib, place.holds);
    EXPECT_EQ(0u, place.needs);
    EXPECT_TRUE(promise.fits(64 * mib));
    promise.take(60 * mib);
    EXPECT_EQ(60 * mib, place.on_card);
    EXPECT_TRUE(promise.fits(4 * mib));
    EXPECT_FALSE(promise.fits(5 * mib));
}
TEST_F(PromiseTest, ARefusalChangesNothing) {
    have(100 * mib);
    promise.wish(100 * mib);
    EXPECT_EQ(256 * mib, place.needs);
    place.refused = place.wish;
    EXPECT_EQ(Promise::Answer::refused, promise.answer());
    EXPECT_EQ(128 * mib, place.holds);
    EXPECT_FALSE(promise.wishes());
}
TEST_F(PromiseTest, TheSameWishStandsAndAnotherReplacesIt) {
    EXPECT_TRUE(promise.wish(mib));
    EXPECT_FALSE(promise.wish(2 * mib)) << "it needs as much";
    EXPECT_TRUE(promise.wish(65 * mib));
    EXPECT_EQ(2u, place.wish);
    place.promised = 64 * mib;
    place.granted = 1;
    EXPECT_EQ(Promise::Answer::waits, promise.answer()) << "of the earlier one";
}
TEST_F(PromiseTest, AWishIsForWhatIsOutToo) {
    have(200 * mib);
    promise.give(128 * mib);
    promise.set_out(128 * mib);
    promise.shrink(100 * mib);
    EXPECT_EQ(100 * mib, place.holds);
    EXPECT_TRUE(promise.wish(0));
    EXPECT_EQ(256 * mib, place.needs);
    EXPECT_EQ(1u, place.returns);
}
TEST_F(PromiseTest, AWishIsNotRoundedBeyondWhatTheClientMayHave) {
    place.may_have = 100 * mib;
    promise.wish(90 * mib);
    EXPECT_EQ(100 * mib, place.needs);
    promise.wish(110 * mib);
    EXPECT_EQ(110 * mib, place.needs) << "the bridge refuses";
}
TEST_F(PromiseTest, ABridgeThatPromisesLessThanItGrantsIsNotBelieved) {
    promise.wish(100 * mib);
    grant(64 * mib);
    EXPECT_EQ(Promise::Answer::granted, promise.answer());
    EXPECT_FALSE(promise.fits(100 * mib));
    EXPECT_EQ(64 * mib, place.holds);
}
TEST_F(PromiseTest, WhatIsNotUsedIsGivenBack) {
    have(500 * mib);
    EXPECT_FALSE(promise.give_back());
    promise.give(400 * mib);
    EXPECT_EQ(512 * mib, place.holds);
    EXPECT_TRUE(promise.give_back());
    EXPECT_EQ(128 * mib, place.holds);
    EXPECT_FALSE(promise.fits(29 * mib));
}
TEST_F(PromiseTest, AnOrderIsObeyedWhenNoMoreIsHeld) {
    have(100 * mib);
    EXPECT_FALSE(promise.is_ordered());
    place.keep = 110 * mib;
    EXPECT_TRUE(promise.is_ordered());
    EXPECT_TRUE(promise.shrink(promise.keep()));
    EXPECT_FALSE(promise.is_ordered());
    place.keep = 10 * mib;
    EXPECT_TRUE(promise.shrink(promise.keep()));
    EXPECT_EQ(100 * mib, place.holds) << "what is on the card";
    EXPECT_TRUE(promise.is_ordered());
}
TEST_F(PromiseTest, WithoutSharingEverythingFits) {
    place.keep = 0;
    promise.end_sharing();
    EXPECT_TRUE(promise.fits(1000 * mib));
    EXPECT_FALSE(promise.is_ordered());
}

// ---- pieces

TEST_F(PromiseTest, PiecesAreWithinThePromise) {
    ModelPieces below;
    std::vector<Promise> cards(1, promise);
    PromisedPieces pieces(below, cards);
    Pieces::Handle piece = 0;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, pieces.create(0, 2 * mib, piece));
    EXPECT_EQ(2 * mib, pieces.lacks().bytes);
    EXPECT_TRUE(below.pieces.empty());
    pieces.forget_lack();
    cards[0].wish(2 * mib);
    grant(64 * mib);
    cards[0].answer();
    EXPECT_EQ(CUDA_SUCCESS, pieces.create(0, 2 * mib, piece));
    EXPECT_EQ(0u, pieces.lacks().bytes);
    EXPECT_EQ(2 * mib, place.on_card);
    pieces.release(piece);
    EXPECT_EQ(0u, place.on_card);
    below.fails_at = below.calls + 1;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, pieces.create(0, 2 * mib, piece));
    EXPECT_EQ(0u, pieces.lacks().bytes) << "the promise is there: others have taken the memory";
    EXPECT_EQ(0u, place.on_card);
    EXPECT_EQ(CUDA_SUCCESS, pieces.create(1, 2 * mib, piece)) << "that device is not shared";
    pieces.release(piece);
    EXPECT_EQ(CUDA_SUCCESS, below.create(0, 2 * mib, piece));
    pieces.release(piece);
    EXPECT_EQ(0u, place.on_card) << "the piece was another process's";
}

// ---- both sides, in all orders

struct ModelWords {
    static inline model::World* world = nullptr;
    static inline std::map<const void*, unsigned> places;
    static unsigned place_of(const void* word, std::uint64_t value) {
        const auto [at, is_new] = places.try_emplace(word);
        if (is_new) at->second = world->new_location(value);
        return at->second;
    }
    template <class T> static T load(const T& word) {
        return static_cast<T>(world->load(place_of(&word, word), std::memory_order_acquire));
    }
    template <class T> static void store(T& word, std::type_identity_t<T> value) {
        world->store(place_of(&word, word), value, std::memory_order_release);
    }
};

struct Sides {
    explicit Sides(model::World& world) : world(world) {
        ModelWords::world = &world;
        ModelWords::places.clear();
        for (const std::uint64_t* word :
             {&place.promised, &place.keep, &place.holds, &place.needs, &place.on_card, &bell})
            ModelWords::place_of(word, *word);
        for (const std::uint32_t* word : {&place.granted, &place.wish}) ModelWords::place_of(word, *word);
    }
    model::World& world;
    CardPlace place;
    std::uint64_t bell = 0;                   // rung when the bridge is to look
    std::uint64_t promised = 0, on_card = 0;  // as the sides themselves know
    static constexpr std::uint64_t unit = 64 * mib;

    void check() { world.check(on_card <= promised, "more is on the card than is promised"); }

    void worker(int rounds) {
        BasicPromise<ModelWords> promise(place);
        using Answer = BasicPromise<ModelWords>::Answer;
        const auto give = [&](std::uint64_t bytes) {
            promise.give(bytes);
            on_card -= bytes;
        };
        const auto obey = [&] {
            const std::uint64_t keep = promise.keep();
            if (keep >= promise.holds()) return;
            if (promise.on_card() > keep) give(promise.on_card() - keep);
            promise.shrink(keep);
        };
        for (int round = 0; round < rounds; ++round) {
            promise.wish(unit);
            ring(1);
            world.await([&] { return ModelWords::load(place.granted) == static_cast<std::uint32_t>(round + 1); });
            world.check(promise.answer() == Answer::granted, "the wish was granted");
            world.check(promise.fits(unit), "what was granted fits");
            on_card += unit;
            promise.take(unit);
            check();
            obey();
            if (round % 2 == 1 && promise.on_card() != 0) give(promise.on_card());
            promise.give_back();
            check();
        }
        ring(ended);
    }
    static constexpr std::uint64_t ended = 100;
    std::uint64_t rung = 0;
    void ring(std::uint64_t more) { ModelWords::store(bell, rung += more); }

    // One look of the bridge. `order`: which mistake it makes.
    enum class Mistake { none, reads_holds_first, forgets_grants };
    void look(Mistake mistake) {
        const auto load = [](const auto& word) { return ModelWords::load(word); };
        const std::uint64_t early = mistake == Mistake::reads_holds_first ? load(place.holds) : 0;
        const std::uint32_t wish = load(place.wish);
        const std::uint64_t needs = load(place.needs);
        const std::uint64_t holds = mistake == Mistake::reads_holds_first ? early : load(place.holds);
        const bool unused = granted == wish && needs != 0;
        if (holds < promised && (!unused || mistake == Mistake::forgets_grants)) {
            promised = holds;
            ModelWords::store(place.promised, promised);
            check();
        }
        if (wish == granted || needs == 0) return;
        if (needs > promised) ModelWords::store(place.promised, promised = needs);
        ModelWords::store(place.granted, granted = wish);
    }
    std::uint32_t granted = 0;
    void bridge(Mistake mistake, bool orders) {
        for (std::uint64_t heard = 0; heard < ended;) {
            look(mistake);  // at any time
            world.await([&] { return ModelWords::load(bell) != heard; });
            heard = ModelWords::load(bell);
            if (orders && granted == 1) ModelWords::store(place.keep, 0);
            if (orders && granted == 2) ModelWords::store(place.keep, CardPlace::unlimited);
            look(mistake);
        }
        world.check(promised == ModelWords::load(place.holds), "a promise is kept that was given back");
    }
};

model::Outcome explore(Sides::Mistake mistake, bool orders, const model::Limits& limits = {.preemptions = 1},
                       int rounds = 2) {
    std::unique_ptr<Sides> sides;
    model::Outcome outcome = model::explore(limits, [&](model::World& world) {
        sides = std::make_unique<Sides>(world);
        world.thread([&sides, rounds] { sides->worker(rounds); });
        world.thread([&sides, mistake, orders] { sides->bridge(mistake, orders); });
    });
    sides.reset();
    return outcome;
}

struct PromiseOrders : model::Fixture {};
TEST_F(PromiseOrders, NoMoreIsOnTheCardThanIsPromised) {
    for (const bool orders : {false, true})
        for (const auto& [preemptions, rounds] : {std::pair{2u, 1}, {0u, 2}}) {
            const model::Outcome outcome = explore(Sides::Mistake::none, orders, {.preemptions = preemptions}, rounds);
            EXPECT_EQ(outcome.error, "");
            EXPECT_TRUE(outcome.exhausted);
            EXPECT_GT(outcome.executions, 50u);
        }
}
TEST_F(PromiseOrders, NorAfterSeveralRoundsAtRandom) {
    EXPECT_EQ(explore(Sides::Mistake::none, true, {.random = 1000}, 5).error, "");
}
TEST_F(PromiseOrders, ABridgeThatLowersAGrantBeforeItIsUsedIsFound) {
    EXPECT_NE(explore(Sides::Mistake::forgets_grants, false).error, "");
}
TEST_F(PromiseOrders, ABridgeThatReadsWhatIsHeldTooEarlyIsFound) {
    EXPECT_NE(explore(Sides::Mistake::reads_holds_first, false).error, "");
}
// Each ordering of the worker's and the bridge's words is needed.
TEST_F(PromiseOrders, WithoutAnOrderingOfTheWordsAFaultIsFound) {
    for (const int thread : {0, 1})
        for (const model::Order order : {model::Order::release, model::Order::acquire})
            EXPECT_NE(explore(Sides::Mistake::none, false, {.preemptions = 1, .weaken = {thread, order}}).error, "")
                << thread << " " << static_cast<int>(order);
}

}  // namespace
}  // namespace barcuda
