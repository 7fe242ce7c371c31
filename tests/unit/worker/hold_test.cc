// SPDX-License-Identifier: Apache-2.0
// How a worker is held, moved away and brought back, by orders, with a driver that only records: each answer of the
// driver leads to a named state, and a failure changes nothing.
#include <gtest/gtest.h>

#include "host-bridge/worker/hold.h"
#include "host-bridge/worker/memory/residence.h"
#include "tests/unit/support/loopback.h"

namespace barcuda {
namespace {

struct Answers {
    CUresult work, lock, checkpoint, restore, unlock;
    bool captures;
    int locked, away;
} answers;

CUresult query(CUstream) { return answers.work; }
CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
    *status = stream && answers.captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
CUresult lock(int, CUcheckpointLockArgs*) {
    answers.locked += answers.lock == CUDA_SUCCESS;
    return answers.lock;
}
CUresult checkpoint(int, CUcheckpointCheckpointArgs*) {
    answers.away += answers.checkpoint == CUDA_SUCCESS;
    return answers.checkpoint;
}
CUresult restore(int, CUcheckpointRestoreArgs*) {
    answers.away -= answers.restore == CUDA_SUCCESS;
    return answers.restore;
}
CUresult unlock(int, CUcheckpointUnlockArgs*) {
    answers.locked -= answers.unlock == CUDA_SUCCESS;
    return answers.unlock;
}

Driver with_checkpoint() {
    answers = {};
    Driver driver = fake::driver();
    driver.cuStreamQuery = query;
    driver.cuStreamIsCapturing = is_capturing;
    driver.checkpoint = {lock, checkpoint, restore, unlock};
    return driver;
}

struct HoldTest : Loopback {
    HoldTest() : Loopback(with_checkpoint()) {}
    Sheet sheet;
    Hold hold{ground.session, sheet};

    void order(Paused wanted, std::uint32_t within = 60'000) {
        sheet.orders.wanted = static_cast<std::uint32_t>(wanted);
        sheet.orders.within = within;
        ++sheet.orders.order;
    }
    Paused is() const { return static_cast<Paused>(sheet.orders.is); }
    bool done() const { return sheet.orders.done == sheet.orders.order; }
    Obstacle obstacle() const { return static_cast<Obstacle>(sheet.orders.obstacle); }
    void go(Paused to) {
        order(to);
        hold.stops();
        ASSERT_TRUE(done());
        ASSERT_EQ(is(), to);
    }
    void work() {  // work that the GPU does not finish
        CUcontext made = nullptr;
        ASSERT_TRUE((call<Op::cuDevicePrimaryCtxRetain>(&made, 0).ok()));
        answers.work = CUDA_ERROR_NOT_READY;
        ground.session.note_work();
    }
};

TEST_F(HoldTest, WithoutAnOrderCommandsAreTaken) {
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(is(), Paused::running);
}
TEST_F(HoldTest, AnIdleClientIsHeldAtOnceAndGoesOnWhenItIsTold) {
    order(Paused::held);
    EXPECT_TRUE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(obstacle(), Obstacle::none);
    EXPECT_EQ(is(), Paused::held);
    EXPECT_TRUE(hold.stops());
    order(Paused::running);
    EXPECT_FALSE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(is(), Paused::running);
}
TEST_F(HoldTest, AClientWhoseWorkIsNotDoneIsHeldWhenItIs) {
    work();
    order(Paused::held);
    EXPECT_TRUE(hold.stops());
    EXPECT_TRUE(hold.waits_for_work());
    EXPECT_FALSE(done());
    EXPECT_EQ(is(), Paused::holding);
    answers.work = CUDA_SUCCESS;
    EXPECT_TRUE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(is(), Paused::held);
}
TEST_F(HoldTest, AClientWhoseWorkDoesNotEndGoesOnAndThatIsSaid) {
    work();
    order(Paused::away, 0);
    EXPECT_FALSE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(obstacle(), Obstacle::work);
    EXPECT_EQ(is(), Paused::running);
    EXPECT_EQ(answers.locked, 0);
}
TEST_F(HoldTest, WhileWorkLastsCommandsAreTakenNowAndThen) {
    work();
    order(Paused::held);
    while (hold.stops()) EXPECT_EQ(is(), Paused::holding);
    EXPECT_FALSE(done());
    EXPECT_EQ(is(), Paused::running) << "the GPU may wait for the next command";
    answers.work = CUDA_SUCCESS;
    while (!hold.stops()) EXPECT_FALSE(done());
    EXPECT_TRUE(done());
    EXPECT_EQ(is(), Paused::held);
}
TEST_F(HoldTest, ACaptureIsNotHeldUpForOnlyCommandsEndIt) {
    work();
    const CUstream s = stream();
    EXPECT_TRUE((call<Op::cuStreamBeginCapture_v2>(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).ok()));
    answers.captures = true;
    order(Paused::held);
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(hold.stops());
    EXPECT_FALSE(done());
    answers.captures = false;
    answers.work = CUDA_SUCCESS;
    while (!hold.stops()) EXPECT_FALSE(done());
    EXPECT_EQ(is(), Paused::held);
}
TEST_F(HoldTest, AClientThatDoesNotEndItsCaptureIsRefusedInTime) {
    work();
    EXPECT_TRUE((call<Op::cuStreamBeginCapture_v2>(stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).ok()));
    answers.captures = true;
    order(Paused::held, 30);
    while (!done()) EXPECT_FALSE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::work);
    EXPECT_EQ(is(), Paused::running);
}
TEST_F(HoldTest, AnOrderThatIsTakenBackWhileWorkLastsIsAnswered) {
    work();
    order(Paused::away);
    EXPECT_TRUE(hold.stops());
    order(Paused::running);
    EXPECT_FALSE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(is(), Paused::running);
}
TEST_F(HoldTest, AClientThatIsAwayHasLockedTheDriverAndComesBack) {
    go(Paused::away);
    EXPECT_TRUE(hold.driver_waits());
    EXPECT_EQ(answers.locked, 1);
    EXPECT_EQ(answers.away, 1);
    order(Paused::running);
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(is(), Paused::running);
    EXPECT_EQ(answers.locked, 0);
    EXPECT_EQ(answers.away, 0);
}
TEST_F(HoldTest, AHeldClientMayGoAwayLater) {
    go(Paused::held);
    go(Paused::away);
    EXPECT_EQ(answers.away, 1);
}
TEST_F(HoldTest, NoCallReachesTheDriverWhileTheClientIsAway) {
    go(Paused::away);
    const auto before = world.calls;
    for (int looks = 0; looks < 10; ++looks) EXPECT_TRUE(hold.stops());
    EXPECT_EQ(world.calls, before);
}
TEST_F(HoldTest, WhereTheDriverDoesNotLockNothingHasChanged) {
    answers.lock = CUDA_ERROR_NOT_READY;
    order(Paused::away);
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::lock);
    EXPECT_EQ(sheet.orders.result, CUDA_ERROR_NOT_READY);
    EXPECT_EQ(is(), Paused::running);
}
TEST_F(HoldTest, WhereTheMemoryDoesNotGoTheDriverIsUnlockedAndNothingHasChanged) {
    answers.checkpoint = CUDA_ERROR_OUT_OF_MEMORY;
    order(Paused::away);
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::checkpoint);
    EXPECT_EQ(is(), Paused::running);
    EXPECT_EQ(answers.locked, 0);
    answers.checkpoint = CUDA_SUCCESS;
    go(Paused::held);
    answers.checkpoint = CUDA_ERROR_OUT_OF_MEMORY;
    order(Paused::away);
    EXPECT_TRUE(hold.stops());
    EXPECT_EQ(is(), Paused::held) << "it was, before";
}
TEST_F(HoldTest, UnifiedMemoryIsNamed) {
    answers.checkpoint = CUDA_ERROR_NOT_SUPPORTED;
    order(Paused::away);
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::unified);
    EXPECT_EQ(is(), Paused::running);
    EXPECT_EQ(answers.locked, 0);
}
TEST_F(HoldTest, ADriverThatDoesNotUnlockIsTheEnd) {
    answers.checkpoint = CUDA_ERROR_OUT_OF_MEMORY;
    answers.unlock = CUDA_ERROR_UNKNOWN;
    order(Paused::away);
    EXPECT_TRUE(hold.stops());
    EXPECT_EQ(is(), Paused::stuck);
    EXPECT_EQ(obstacle(), Obstacle::unlock);
}
TEST_F(HoldTest, ARestoreThatFailsIsTheEndAndIsSaid) {
    go(Paused::away);
    answers.restore = CUDA_ERROR_OUT_OF_MEMORY;
    order(Paused::running);
    EXPECT_TRUE(hold.stops());
    EXPECT_TRUE(done());
    EXPECT_EQ(is(), Paused::stuck);
    EXPECT_EQ(obstacle(), Obstacle::restore);
    EXPECT_EQ(sheet.orders.result, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_TRUE(hold.driver_waits());
    order(Paused::running);
    EXPECT_TRUE(hold.stops()) << "and nothing is tried again";
    EXPECT_EQ(obstacle(), Obstacle::order);
}
TEST_F(HoldTest, AnOrderThatMakesNoSenseIsRefused) {
    order(Paused::stuck);
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::order);
    go(Paused::away);
    order(Paused::held);
    EXPECT_TRUE(hold.stops());
    EXPECT_EQ(obstacle(), Obstacle::order);
    EXPECT_EQ(is(), Paused::away);
}

struct OldDriver : Loopback {
    Sheet sheet;
    Hold hold{ground.session, sheet};
};
TEST_F(OldDriver, WithoutACheckpointHoldsItsClientsButLetsNoneGoAway) {
    sheet.orders.wanted = static_cast<std::uint32_t>(Paused::away);
    ++sheet.orders.order;
    EXPECT_FALSE(hold.stops());
    EXPECT_EQ(static_cast<Obstacle>(sheet.orders.obstacle), Obstacle::no_checkpoint);
    sheet.orders.wanted = static_cast<std::uint32_t>(Paused::held);
    ++sheet.orders.order;
    EXPECT_TRUE(hold.stops());
    EXPECT_EQ(static_cast<Paused>(sheet.orders.is), Paused::held);
}

// Its bridge reads that the order is done, and then what the client holds.
struct HoldOfACard : HoldTest, Residence::Memory {
    std::vector<Promise> cards{Promise(sheet.cards[0])};
    Residence residence{cards, *this};
    Hold of_a_card{ground.session, sheet, &residence};
    bool quiet() override { return true; }
    bool captures() override { return false; }
    void put_out(std::size_t, std::uint64_t) override {}
    CUresult bring_back(std::size_t) override { return CUDA_SUCCESS; }
    Lack lacks() override { return {}; }
    void forget_lack() override {}
    void look() override {}
    void shrink_store() override {}
};

TEST_F(HoldOfACard, WhatIsAwayHoldsNothingOfTheCard) {
    constexpr std::uint64_t bytes = 64 << 20;
    CardPlace& place = sheet.cards[0];
    cards[0].take(bytes);
    cards[0].come_back();
    order(Paused::away);
    of_a_card.stops();
    ASSERT_EQ(is(), Paused::away);
    EXPECT_EQ(place.holds, 0u);
    EXPECT_EQ(place.on_card, bytes);
    answers.restore = CUDA_SUCCESS;
    order(Paused::running);
    of_a_card.stops();
    ASSERT_EQ(is(), Paused::running);
    EXPECT_EQ(place.holds, bytes);
    EXPECT_EQ(residence.state(), Residence::State::resident);
}

}  // namespace
}  // namespace barcuda
