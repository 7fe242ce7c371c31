// SPDX-License-Identifier: Apache-2.0
// residence_test: a client's memory leaves its cards by orders and comes back before the next command, with a bridge
// and a GPU that are models: each answer leads to a named state, and no command runs without its memory.
#include "host-bridge/worker/memory/residence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace barcuda {
namespace {

constexpr std::uint64_t mib = 1 << 20;
using State = Residence::State;

struct ResidenceTest : testing::Test, Residence::Memory {
    CardPlace place;
    std::vector<Promise> cards{Promise(place)};
    Promise& card = cards[0];
    Residence residence{cards, *this};

    // ---- the GPU and the store
    bool is_quiet = true, has_room = true, in_capture = false;
    std::uint64_t store = 10'000 * mib, shared = 0;
    unsigned looks = 0, shrunk = 0;
    Lack lack;
    bool quiet() override { return is_quiet; }
    bool captures() override { return in_capture; }
    void put_out(std::size_t, std::uint64_t bytes) override {
        const std::uint64_t most = std::min(card.on_card() - shared, store - card.out());
        const std::uint64_t moved = std::min((bytes + 63 * mib) / (64 * mib) * 64 * mib, most);
        EXPECT_TRUE(is_quiet && !in_capture);
        card.give(moved);
        card.set_out(card.out() + moved);
        card.set_fixed(shared);
    }
    CUresult gpu = CUDA_SUCCESS;  // its answer, where it has room
    CUresult bring_back(std::size_t) override {
        EXPECT_TRUE(card.fits(card.out()));
        if (!has_room) return CUDA_ERROR_OUT_OF_MEMORY;
        if (gpu != CUDA_SUCCESS) return gpu;
        card.take(card.out());
        card.set_out(0);
        return CUDA_SUCCESS;
    }
    Lack lacks() override { return lack; }
    void forget_lack() override { lack = {}; }
    void shrink_store() override { ++shrunk; }

    // ---- the bridge: it answers at once, later, or not
    bool answers = true, refuses = false, shares_nothing = false;
    std::uint64_t room = 10'000 * mib;
    void look() override {
        ++looks;
        if (shares_nothing) card.end_sharing();
        if (answers) answer();
        if (refuses) refuse();
    }
    void answer() {
        const bool unused = place.granted == place.wish && place.needs != 0;
        if (!unused) place.promised = place.holds;
        if (place.needs == 0 || place.granted == place.wish || place.needs > room) return;
        place.keep = CardPlace::unlimited;
        place.promised = std::max(place.promised, place.needs);
        place.granted = place.wish;
    }
    void refuse() { place.refused = place.wish; }

    // ---- the client
    // An allocation, as the layer makes it. The result of the command.
    CUresult allocate(std::uint64_t bytes) {
        if (!card.fits(bytes) && !residence.asks_for_more(0, bytes)) {
            lack = {0, bytes};
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        card.take(bytes);
        return CUDA_SUCCESS;
    }
    // A command, from the queue to its end. False: it waits.
    bool allocates(std::uint64_t bytes, CUresult& result) {
        if (residence.stops() || !residence.begin()) return false;
        result = allocate(bytes);
        return !residence.end(result);
    }
    void have(std::uint64_t bytes) {
        CUresult result{};
        ASSERT_TRUE(allocates(bytes, result));
        ASSERT_EQ(CUDA_SUCCESS, result);
    }
    bool works() {
        if (residence.stops() || !residence.begin()) return false;
        EXPECT_EQ(0u, card.out()) << "a command runs without its memory";
        EXPECT_FALSE(residence.end(CUDA_SUCCESS));
        return true;
    }
};

TEST_F(ResidenceTest, WithoutPressureOneLookIsEnough) {
    have(100 * mib);
    EXPECT_EQ(1u, looks);
    have(20 * mib);
    EXPECT_TRUE(works());
    EXPECT_EQ(1u, looks);
    EXPECT_EQ(State::resident, residence.state());
}

// ---- orders

TEST_F(ResidenceTest, AnIdleClientsMemoryLeavesAndComesBackForTheNextCommand) {
    have(1000 * mib);
    place.keep = 300 * mib;
    EXPECT_FALSE(residence.stops()) << "commands are taken";
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_EQ(296 * mib, place.on_card) << "whole pieces";
    EXPECT_EQ(300 * mib, place.holds);
    EXPECT_EQ(704 * mib, place.out);
    EXPECT_TRUE(works());
    EXPECT_EQ(State::resident, residence.state());
    EXPECT_EQ(1000 * mib, place.on_card);
    EXPECT_EQ(1u, place.returns);
}
TEST_F(ResidenceTest, WhatIsNotUsedIsGivenWithoutAWait) {
    have(1000 * mib);
    card.give(900 * mib);
    place.keep = 200 * mib;
    is_quiet = false;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::resident, residence.state());
    EXPECT_EQ(200 * mib, place.holds);
    place.pressed = 1;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(128 * mib, place.holds);
    const unsigned before = looks;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(before, looks) << "there is nothing new";
}
TEST_F(ResidenceTest, MemoryLeavesWhenTheGpuHasDoneTheWork) {
    have(1000 * mib);
    is_quiet = false;
    place.keep = 0;
    EXPECT_TRUE(residence.stops());
    EXPECT_EQ(State::leaving, residence.state());
    EXPECT_EQ(1000 * mib, place.on_card);
    is_quiet = true;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_EQ(0u, place.holds);
}
TEST_F(ResidenceTest, WhileWorkLastsCommandsAreTakenNowAndThen) {
    have(1000 * mib);
    is_quiet = false;
    place.keep = 0;
    while (residence.stops()) EXPECT_EQ(State::leaving, residence.state());
    EXPECT_EQ(State::resident, residence.state()) << "the GPU may wait for the next command";
    EXPECT_TRUE(residence.begin());
    EXPECT_FALSE(residence.end(CUDA_SUCCESS));
    is_quiet = true;
    while (residence.state() != State::outside) residence.stops();
    EXPECT_EQ(0u, place.holds);
}
TEST_F(ResidenceTest, AnAttemptIsAtSomeTimeLongerThanAllWorkThatWasPosted) {
    const std::uint64_t hour = 3600ull * 1'000'000'000;
    std::uint64_t attempt = 0;
    for (int i = 0; i < 20; ++i) attempt = Residence::attempt_after(attempt);
    EXPECT_GT(attempt, hour);
}
TEST_F(ResidenceTest, ACaptureIsNeitherHeldUpNorTouchedAndTheOrderStands) {
    have(1000 * mib);
    in_capture = true;
    place.keep = 0;
    for (is_quiet = false;; is_quiet = true) {
        EXPECT_FALSE(residence.stops()) << "only commands end it";
        EXPECT_EQ(State::resident, residence.state());
        EXPECT_EQ(1000 * mib, place.on_card);
        EXPECT_TRUE(works());
        if (is_quiet) break;
    }
    in_capture = false;
    is_quiet = false;
    while (!residence.stops()) EXPECT_EQ(State::resident, residence.state());
    EXPECT_EQ(State::leaving, residence.state()) << "it waits for work as before";
    is_quiet = true;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_EQ(0u, place.holds);
}
TEST_F(ResidenceTest, APausedClientHoldsNothingUntilItsMemoryIsBack) {
    have(1000 * mib);
    place.keep = 600 * mib;
    residence.stops();
    answers = false;
    EXPECT_FALSE(residence.begin());
    const std::uint64_t on_card = place.on_card, out = place.out;
    residence.leave_cards();
    EXPECT_EQ(State::away, residence.state());
    EXPECT_EQ(0u, place.holds + place.needs);
    EXPECT_EQ(on_card, place.on_card) << "the driver has it";
    place.keep = 0;
    place.pressed = 1;
    EXPECT_TRUE(residence.stops());
    residence.obey();
    residence.rest();
    EXPECT_EQ(0u, place.holds);
    EXPECT_EQ(out, place.out);
    place.keep = CardPlace::unlimited;
    place.pressed = 0;
    residence.return_to_cards();
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_EQ(on_card, place.holds);
    answers = true;
    EXPECT_TRUE(works());
    EXPECT_EQ(1000 * mib, place.on_card);
}
TEST_F(ResidenceTest, AClientThatIsAwayAndIsUsedSaysSoOnce) {
    have(100 * mib);
    residence.rest();
    residence.leave_cards();
    ASSERT_NE(0u, place.idle_since);
    const unsigned before = looks;
    residence.call_for_return();
    EXPECT_EQ(0u, place.idle_since);
    residence.call_for_return();
    EXPECT_EQ(before + 1, looks);
    EXPECT_EQ(State::away, residence.state());
}
TEST_F(ResidenceTest, AClientThatRestsInACaptureKeepsItsMemory) {
    have(1000 * mib);
    in_capture = true;
    place.keep = 0;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(residence.stops());
    EXPECT_EQ(1000 * mib, place.on_card);
    EXPECT_FALSE(residence.waits());
}
TEST_F(ResidenceTest, AnOrderThatIsLiftedIsForgotten) {
    have(1000 * mib);
    is_quiet = false;
    place.keep = 0;
    EXPECT_TRUE(residence.stops());
    place.keep = CardPlace::unlimited;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::resident, residence.state());
    EXPECT_EQ(1000 * mib, place.on_card);
}
TEST_F(ResidenceTest, WhatCannotLeaveStaysAndThatIsSaid) {
    have(1000 * mib);
    shared = 500 * mib;
    place.keep = 0;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_EQ(500 * mib, place.holds);
    EXPECT_EQ(500 * mib, place.fixed);
    const unsigned before = looks;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(before, looks) << "it is not tried again at each command";
    EXPECT_TRUE(works());
}
TEST_F(ResidenceTest, AStoreWithoutRoomTakesNothing) {
    have(1000 * mib);
    store = 0;
    place.keep = 0;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(State::resident, residence.state());
    EXPECT_EQ(1000 * mib, place.holds);
}
TEST_F(ResidenceTest, AFurtherOrderIsObeyedOutside) {
    have(1000 * mib);
    place.keep = 900 * mib;
    residence.stops();
    place.keep = 100 * mib;
    residence.stops();
    EXPECT_EQ(State::outside, residence.state());
    EXPECT_GE(100 * mib, place.holds);
    EXPECT_EQ(1000 * mib, place.on_card + place.out);
}
TEST_F(ResidenceTest, AHeldClientObeysWithoutACommand) {
    have(1000 * mib);
    place.keep = 0;
    residence.obey();
    EXPECT_EQ(0u, place.holds);
}

// ---- commands that wait

TEST_F(ResidenceTest, ACommandWaitsUntilTheMemoryIsBack) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    answers = false;
    EXPECT_FALSE(residence.begin());
    EXPECT_EQ(State::waiting, residence.state());
    EXPECT_EQ(1024 * mib, place.needs);
    EXPECT_EQ(1u, place.returns);
    EXPECT_TRUE(residence.stops());
    const unsigned before = looks;
    EXPECT_TRUE(residence.stops());
    EXPECT_EQ(before, looks) << "the wish stands";
    answer();
    EXPECT_TRUE(works());
    EXPECT_EQ(1000 * mib, place.on_card);
}
TEST_F(ResidenceTest, APausedClientAsksForNothingAndAgainWhenItGoesOn) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    answers = false;
    EXPECT_FALSE(residence.begin());
    const std::uint32_t first = place.wish;
    const unsigned before = looks;
    residence.ask_nothing();
    EXPECT_EQ(0u, place.needs);
    EXPECT_EQ(before + 1, looks) << "the bridge hears of it";
    residence.ask_nothing();
    EXPECT_EQ(before + 1, looks);
    EXPECT_TRUE(residence.stops());
    EXPECT_EQ(first + 1, place.wish);
    EXPECT_EQ(1024 * mib, place.needs);
    answer();
    EXPECT_TRUE(works());
}
TEST_F(ResidenceTest, ACardThatAStrangerHasFilledIsTriedAgain) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    has_room = false;
    EXPECT_FALSE(residence.begin());
    EXPECT_EQ(State::waiting, residence.state());
    EXPECT_TRUE(residence.stops());
    has_room = true;
    while (residence.stops()) EXPECT_EQ(State::waiting, residence.state());
    EXPECT_TRUE(works());
}
TEST_F(ResidenceTest, AndThePromiseIsGivenBackIfThatLasts) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    has_room = false;
    EXPECT_FALSE(residence.begin());
    const std::uint32_t first = place.wish;
    while (place.wish == first) EXPECT_TRUE(residence.stops());
    EXPECT_EQ(first + 1, place.wish) << "so that the bridge sees who lacks what";
    has_room = true;
    while (residence.stops()) EXPECT_EQ(State::waiting, residence.state());
    EXPECT_TRUE(works());
}
TEST_F(ResidenceTest, AGpuThatTakesNothingBackEndsTheWait) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    gpu = CUDA_ERROR_ECC_UNCORRECTABLE;
    EXPECT_FALSE(residence.begin());
    EXPECT_EQ(State::lost, residence.state());
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, residence.loss());
    place.keep = CardPlace::unlimited;
    EXPECT_TRUE(residence.stops()) << "no command can run";
    residence.obey();
    residence.rest();
    EXPECT_EQ(State::lost, residence.state());
    EXPECT_EQ(1000 * mib, place.out);
}
TEST_F(ResidenceTest, AReturnThatIsRefusedIsWishedForAgain) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    answers = false;
    EXPECT_FALSE(residence.begin());
    refuse();
    EXPECT_TRUE(residence.stops());
    EXPECT_TRUE(residence.stops());
    EXPECT_NE(place.refused, place.wish);
    answer();
    EXPECT_TRUE(works());
}
TEST_F(ResidenceTest, AnAllocationWaitsForItsPromise) {
    answers = false;
    CUresult result{};
    EXPECT_FALSE(allocates(100 * mib, result));
    EXPECT_EQ(State::waiting, residence.state());
    EXPECT_EQ(0u, place.returns);
    EXPECT_FALSE(allocates(100 * mib, result));
    answer();
    EXPECT_TRUE(allocates(100 * mib, result));
    EXPECT_EQ(CUDA_SUCCESS, result);
    EXPECT_EQ(State::resident, residence.state());
}
TEST_F(ResidenceTest, AnAllocationThatIsRefusedIsOutOfMemoryAndTheClientGoesOn) {
    have(500 * mib);
    answers = false;
    CUresult result{};
    EXPECT_FALSE(allocates(100 * mib, result));
    refuse();
    EXPECT_TRUE(allocates(100 * mib, result));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
    EXPECT_EQ(0u, place.needs);
    EXPECT_TRUE(works());
    EXPECT_FALSE(allocates(100 * mib, result)) << "the next one is a wish of its own";
    answer();
    EXPECT_TRUE(allocates(100 * mib, result));
    EXPECT_EQ(CUDA_SUCCESS, result);
}
TEST_F(ResidenceTest, AnAllocationThatIsRefusedAtOnceDoesNotWait) {
    answers = false;
    refuses = true;
    CUresult result{};
    EXPECT_TRUE(allocates(100 * mib, result));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
    EXPECT_EQ(1u, looks) << "nor ask twice";
    refuses = false;
    answers = true;
    have(100 * mib);
}
TEST_F(ResidenceTest, WhatTheCardNeverHasIsAskedForLast) {
    place.may_have = 500 * mib;
    have(450 * mib);
    const unsigned before = looks;
    EXPECT_FALSE(residence.asks_for_more(0, 100 * mib));
    EXPECT_EQ(before, looks) << "what the client has freed comes first";
    CUresult result{};
    answers = false;
    EXPECT_FALSE(allocates(100 * mib, result));
    EXPECT_TRUE(residence.stops());
    refuse();
    EXPECT_TRUE(allocates(100 * mib, result));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
}
TEST_F(ResidenceTest, OutOfMemoryThatIsNoLackOfAPromiseIsAnswered) {
    have(mib);
    EXPECT_FALSE(residence.stops());
    EXPECT_TRUE(residence.begin());
    EXPECT_FALSE(residence.end(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_EQ(State::resident, residence.state());
}
// A pool, for example: others give what it lacks, and it does not become a promise.
TEST_F(ResidenceTest, WhatTheDriverLacksIsAskedForForAWhile) {
    have(100 * mib);
    const auto pool = [&](CUresult r) {
        EXPECT_FALSE(residence.stops());
        EXPECT_TRUE(residence.begin());
        if (r == CUDA_ERROR_OUT_OF_MEMORY) lack = {0, 300 * mib, true};
        return residence.end(r);
    };
    EXPECT_TRUE(pool(CUDA_ERROR_OUT_OF_MEMORY)) << "it is done again";
    EXPECT_FALSE(residence.stops()) << "the bridge has granted it";
    EXPECT_EQ(448 * mib, place.holds);
    EXPECT_FALSE(pool(CUDA_SUCCESS));
    EXPECT_EQ(128 * mib, place.holds);
    unsigned again = 0;
    place.may_have = 2000 * mib;
    std::uint64_t most = 0;
    for (; residence.stops() || pool(CUDA_ERROR_OUT_OF_MEMORY); ++again) most = std::max(most, place.promised);
    EXPECT_GT(again, 2u) << "the bridge may learn late what is in use, so others are to give more";
    EXPECT_GT(most, 1000 * mib);
    EXPECT_EQ(128 * mib, place.holds) << "but there is no room at all";
    answers = false;
    EXPECT_TRUE(pool(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_TRUE(residence.stops());
    refuse();
    EXPECT_FALSE(residence.stops());
    EXPECT_FALSE(pool(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_TRUE(works());
}
// A guest may ask for any number of bytes, of a pool as well: no sum with it is a small number.
TEST_F(ResidenceTest, WhatNoCardHasIsRefusedOnce) {
    have(100 * mib);
    refuses = true;  // what it does not grant
    for (const std::uint64_t bytes : {~std::uint64_t{0}, ~std::uint64_t{0} - 100 * mib, std::uint64_t{1} << 63}) {
        const auto pool = [&] {
            EXPECT_TRUE(residence.begin());
            lack = {0, bytes, true};
            return residence.end(CUDA_ERROR_OUT_OF_MEMORY);
        };
        const unsigned before = looks;
        EXPECT_FALSE(residence.stops());
        EXPECT_TRUE(pool()) << "it is done again";
        EXPECT_FALSE(residence.stops());
        EXPECT_FALSE(pool());
        EXPECT_LE(looks, before + 2);
        EXPECT_FALSE(residence.asks_for_more(0, bytes));
        EXPECT_TRUE(works());
    }
}
TEST_F(ResidenceTest, AGrantThatDoesNotFitIsARefusal) {
    answers = false;
    CUresult result{};
    EXPECT_FALSE(allocates(300 * mib, result));
    place.promised = 64 * mib;
    place.granted = place.wish;
    const unsigned before = looks;
    EXPECT_FALSE(residence.stops());
    EXPECT_EQ(before, looks) << "nor is it asked for again";
    EXPECT_TRUE(residence.begin());
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, allocate(300 * mib));
    EXPECT_FALSE(residence.end(CUDA_ERROR_OUT_OF_MEMORY));
    EXPECT_TRUE(works());
}
// It waits, and others wait for what it has: it gives that.
TEST_F(ResidenceTest, AClientThatWaitsGivesWhatItHas) {
    have(500 * mib);
    answers = false;
    CUresult result{};
    EXPECT_FALSE(allocates(500 * mib, result));
    place.keep = 0;
    is_quiet = false;
    EXPECT_TRUE(residence.stops());
    EXPECT_EQ(500 * mib, place.on_card);
    is_quiet = true;
    EXPECT_TRUE(residence.stops());
    EXPECT_EQ(State::waiting, residence.state());
    EXPECT_EQ(0u, place.holds);
    EXPECT_EQ(512 * mib, place.out + 12 * mib);
    EXPECT_EQ(1024 * mib, place.needs) << "for both";
    answer();
    EXPECT_TRUE(allocates(500 * mib, result));
    EXPECT_EQ(CUDA_SUCCESS, result);
    EXPECT_EQ(1000 * mib, place.on_card);
}
TEST_F(ResidenceTest, AndIfItIsRefusedTheMemoryComesBackForTheNextCommand) {
    have(500 * mib);
    answers = false;
    CUresult result{};
    EXPECT_FALSE(allocates(500 * mib, result));
    place.keep = 0;
    EXPECT_TRUE(residence.stops());
    refuse();
    EXPECT_TRUE(allocates(500 * mib, result));
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
    EXPECT_EQ(State::outside, residence.state());
    answers = true;
    EXPECT_TRUE(works());
    EXPECT_EQ(500 * mib, place.on_card);
}

// ---- rest

TEST_F(ResidenceTest, AClientThatRestsSaysSoAndGivesBackWhatItDoesNotUse) {
    have(1000 * mib);
    EXPECT_EQ(0u, place.idle_since);
    card.give(500 * mib);
    residence.rest();
    EXPECT_NE(0u, place.idle_since);
    EXPECT_EQ(512 * mib, place.holds);
    const unsigned before = looks;
    residence.rest();
    EXPECT_EQ(before, looks);
    EXPECT_EQ(0u, shrunk);
    place.store_pressed = 1;
    residence.rest();
    EXPECT_EQ(1u, shrunk);
    EXPECT_TRUE(works());
    EXPECT_EQ(0u, place.idle_since);
}
TEST_F(ResidenceTest, WithoutSharingNothingWaits) {
    have(1000 * mib);
    place.keep = 0;
    residence.stops();
    answers = false;
    card.end_sharing();
    EXPECT_TRUE(works());
    CUresult result{};
    EXPECT_TRUE(allocates(1000 * mib, result));
    EXPECT_EQ(CUDA_SUCCESS, result);
}

TEST_F(ResidenceTest, ABridgeThatSharesNothingIsAskedOnce) {
    shares_nothing = true;
    answers = false;
    have(1000 * mib);
    have(1000 * mib);
    EXPECT_EQ(1u, looks);
}

// Orders, answers, refusals, work and strangers at random: whenever a command runs its memory is there, no more is held
// than is promised, and in the end each command has been answered.
TEST_F(ResidenceTest, ARandomBridgeLosesNoMemory) {
    std::mt19937 random(11);
    std::uint64_t mine = 0;
    int done = 0, refusals = 0;
    for (int step = 0; step < 100'000 && !HasFailure(); ++step) {
        answers = random() % 2;
        is_quiet = random() % 4 != 0;
        in_capture = random() % 8 == 0;
        has_room = random() % 8 != 0;
        shared = random() % 4 ? 0 : std::min<std::uint64_t>(card.on_card(), 64 * mib);
        room = random() % 2 ? 10'000 * mib : 500 * mib;
        switch (random() % 8) {
            case 0: place.keep = random() % (1000 * mib); break;
            case 1: place.keep = CardPlace::unlimited; break;
            case 2: answer(); break;
            case 3: place.pressed = random() % 2; break;
            case 4: residence.state() == State::waiting ? refuse() : residence.rest(); break;
            default: break;
        }
        CUresult result{};
        const std::uint64_t bytes = (1 + random() % 100) * mib;
        if (residence.state() != State::waiting && random() % 2 && mine > bytes && card.on_card() > bytes) {
            card.give(bytes);
            mine -= bytes;
        } else if (mine < 2000 * mib && allocates(bytes, result)) {
            ++done;
            if (result == CUDA_SUCCESS) mine += bytes;
            else ++refusals;
        }
        if (residence.state() != State::waiting) works();
        EXPECT_EQ(mine, place.on_card + place.out);
        EXPECT_LE(place.on_card, place.holds);
        EXPECT_LE(place.holds, place.promised);
    }
    EXPECT_GT(done, 20);
    EXPECT_GT(refusals, 0);
}

}  // namespace
}  // namespace barcuda
