// SPDX-License-Identifier: Apache-2.0
// suspending_test: what may follow what while a VM is suspended, and how it is given up: then all is as it was.
#include "host-bridge/bridge/suspending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "host-bridge/bridge/suspend_desk.h"
#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;
using Step = SuspendStep;

TEST(SuspendSteps, AreThoseOfTheDiagram) {
    EXPECT_TRUE(Suspending::permits(Step::none, Step::begun));
    EXPECT_TRUE(Suspending::permits(Step::frozen, Step::none));
    EXPECT_FALSE(Suspending::permits(Step::none, Step::frozen)) << "clients may still come";
    EXPECT_FALSE(Suspending::permits(Step::begun, Step::ended)) << "nothing was written";
    EXPECT_FALSE(Suspending::permits(Step::ended, Step::none)) << "the clients are on the disk";
    for (const Step step : {Step::none, Step::begun, Step::frozen, Step::ended})
        EXPECT_STRNE(Suspending::name(step), "unknown");
}

TEST(SuspendSteps, OneCommandAtATimeAndInOrder) {
    Suspending s;
    EXPECT_THAT(s.finish().text(), HasSubstr("no suspend is under way"));
    EXPECT_EQ(s.begin({}, {}).text(), "");
    EXPECT_THAT(s.begin({}, {}).text(), HasSubstr("under way already, and is begun"));
    EXPECT_THAT(s.freeze(3).text(), HasSubstr("the client of channel 3 is not held"));
    EXPECT_FALSE(s.frozen());
    EXPECT_EQ(s.freeze(-1).text(), "");
    EXPECT_EQ(s.finish().text(), "");
    s.give_up();
    EXPECT_TRUE(s.ended());
}

TEST(SuspendSteps, ACommandThatSaysNothingIsLate) {
    Suspending s;
    const Suspending::Clock::time_point start{1h};
    EXPECT_FALSE(s.is_late(start + 1h)) << "there is none";
    ASSERT_FALSE(s.begin({}, start));
    EXPECT_FALSE(s.is_late(start + Suspending::patience));
    EXPECT_TRUE(s.is_late(start + Suspending::patience + 1ms));
    s.heard(start + 5s);
    EXPECT_FALSE(s.is_late(start + Suspending::patience + 1ms));
}

struct SuspendDeskTest : test::DesksTest {
    std::unique_ptr<SuspendReply> reply = std::make_unique<SuspendReply>();
    std::optional<SuspendDesk> desk;
    SuspendRow::State answer = SuspendRow::able;
    std::set<std::uint32_t> heard;  // channels whose workers are listened to again
    std::set<std::uint32_t> withdrawn, ahead;
    const char* refusal = "";  // of a worker that is to pass its client on ahead
    const Kept kept{};         // without a keeper
    unsigned orders = 0;
    SuspendDesk::Clock::time_point now{1h};

    void SetUp() override {
        DesksTest::SetUp();
        const auto file = [] { return File(dup(STDIN_FILENO)); };
        desk.emplace(*clients, *pauses, kept,
                     SuspendDesk::Workers{[this](Client&, bool check, std::vector<File>& ends) {
                                              ++orders;
                                              for (int i = 0; i < 3 && !check; ++i)
                                                  ends.emplace_back(dup(STDIN_FILENO));
                                              return Failure();
                                          },
                                          [this](const Client&, SuspendRow& row) { row.state = answer; },
                                          [this](const Client& client) { withdrawn.insert(client.slot()); },
                                          [this](const Client& client, std::vector<File>& ends) {
                                              ahead.insert(client.slot());
                                              for (int i = 0; i < 2; ++i) ends.emplace_back(dup(STDIN_FILENO));
                                              return Failure(refusal);
                                          }},
                     SuspendDesk::Given{[] { return "description"; }, file, file},
                     [this](Client& client) { heard.insert(client.slot()); });
    }
    // Returns the refusal.
    std::string ask(SuspendRequest::What what, std::uint32_t channel = 0) {
        *reply = {};
        files = desk->serve({.what = what, .channel = channel}, *reply, {}, now);
        return reply->error;
    }
    // As its worker says.
    void become(Client& client, Paused state) {
        Orders& orders_of = client.worker->sheet().orders;
        publish(orders_of.is, static_cast<std::uint32_t>(state));
        publish(orders_of.done, observe(orders_of.order));
        pauses->look();
    }
    void pause(Client& client) {
        const auto its = std::make_unique<PauseReply>();
        PauseRequest request{.what = PauseRequest::pause, .by = PauseRequest::channel, .client = client.slot()};
        request.keep_memory = true;
        pauses->serve(request, *its, {});
        become(client, Paused::held);
        ASSERT_EQ(pauses->state(client.slot()), Paused::held);
    }
    static Paused wanted(const Client& client) {
        return static_cast<Paused>(observe(client.worker->sheet().orders.wanted));
    }
    std::vector<File> files;
};

TEST_F(SuspendDeskTest, GivesTheCommandWhatItWritesAndEndsOnlyWhenAllWasCarried) {
    Client &first = arrive(), &second = arrive();
    EXPECT_TRUE(desk->admits());
    EXPECT_EQ(ask(SuspendRequest::begin), "");
    EXPECT_FALSE(desk->admits());
    pause(first);
    EXPECT_THAT(ask(SuspendRequest::freeze), HasSubstr("is not held"));
    pause(second);
    EXPECT_EQ(ask(SuspendRequest::freeze), "");
    ASSERT_EQ(files.size(), 3u);
    char text[20] = {};
    EXPECT_EQ(pread(files[0].fd(), text, sizeof text, 0), 11);
    EXPECT_STREQ(text, "description");
    EXPECT_EQ(reply->count, 2u);
    EXPECT_EQ(ask(SuspendRequest::check, first.slot()), "");
    EXPECT_TRUE(files.empty());
    EXPECT_EQ(ask(SuspendRequest::carry, first.slot()), "");
    EXPECT_EQ(files.size(), 3u);
    EXPECT_EQ(ask(SuspendRequest::check, second.slot()), "");
    EXPECT_THAT(ask(SuspendRequest::finish), HasSubstr("was not carried")) << "one was only checked";
    EXPECT_EQ(ask(SuspendRequest::carry, second.slot()), "");
    answer = SuspendRow::hindered;
    EXPECT_THAT(ask(SuspendRequest::finish), HasSubstr("was not carried"));
    EXPECT_FALSE(desk->ended());
    answer = SuspendRow::able;
    EXPECT_EQ(ask(SuspendRequest::finish), "");
    EXPECT_TRUE(desk->ended());
    EXPECT_EQ(wanted(first), Paused::held) << "it was told to run";
}

TEST_F(SuspendDeskTest, TheCommandAsksAgainWhileAWorkerIsEnding) {
    Client &stays = arrive(), &leaves = arrive();
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    pause(stays);
    leaves.worker->dismiss();
    test::await_end(*leaves.worker);
    EXPECT_EQ(ask(SuspendRequest::freeze), "");
    EXPECT_EQ(reply->step, Step::begun);
    EXPECT_TRUE(files.empty());
    EXPECT_FALSE(desk->frozen());
    clients->reap_workers();
    EXPECT_EQ(ask(SuspendRequest::freeze), "");
    EXPECT_EQ(reply->step, Step::frozen);
    EXPECT_EQ(files.size(), 3u);
    EXPECT_EQ(reply->count, 1u) << "it is not in the set";
}

TEST_F(SuspendDeskTest, DoesNotEndWithoutAClientThatTheSetHas) {
    Client &first = arrive(), &second = arrive();
    EXPECT_EQ(ask(SuspendRequest::begin), "");
    pause(first);
    pause(second);
    EXPECT_FALSE(desk->frozen());
    EXPECT_EQ(ask(SuspendRequest::freeze), "");
    EXPECT_TRUE(desk->frozen());
    for (Client* const client : {&first, &second}) EXPECT_EQ(ask(SuspendRequest::carry, client->slot()), "");
    second.end_worker("it was killed");
    desk->forget(second.slot());
    EXPECT_THAT(ask(SuspendRequest::finish), HasSubstr("has ended meanwhile"));
    EXPECT_FALSE(desk->ended());
}

TEST_F(SuspendDeskTest, ThatIsGivenUpLetsThoseRunThatRanBefore) {
    Client &ran = arrive(), &paused = arrive();
    pause(paused);
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    pause(ran);
    ASSERT_EQ(ask(SuspendRequest::freeze), "");
    EXPECT_EQ(ask(SuspendRequest::cancel), "");
    EXPECT_EQ(reply->step, Step::none);
    EXPECT_EQ(wanted(ran), Paused::running);
    EXPECT_EQ(wanted(paused), Paused::held);
    EXPECT_EQ(heard, (std::set{ran.slot(), paused.slot()})) << "their requests wait for ever";
    EXPECT_TRUE(desk->admits());
    EXPECT_EQ(ask(SuspendRequest::begin), "");
}

TEST_F(SuspendDeskTest, OfACommandThatWasKilledIsGivenUp) {
    Client& client = arrive();
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    pause(client);
    ASSERT_EQ(ask(SuspendRequest::freeze), "");
    now += Suspending::patience;
    ask(SuspendRequest::look);
    desk->look(now + Suspending::patience);
    EXPECT_EQ(wanted(client), Paused::held);
    desk->look(now + Suspending::patience + 1s);
    EXPECT_EQ(wanted(client), Paused::running);
    EXPECT_THAT(ask(SuspendRequest::finish), HasSubstr("no suspend is under way"));
}

TEST_F(SuspendDeskTest, ThatIsGivenUpTakesItsOrdersBack) {
    Client& client = arrive();
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    pause(client);
    ASSERT_EQ(ask(SuspendRequest::freeze), "");
    answer = SuspendRow::busy;
    ASSERT_EQ(ask(SuspendRequest::check, client.slot()), "");
    ask(SuspendRequest::cancel);
    EXPECT_EQ(withdrawn, std::set{client.slot()}) << "its worker would follow it at its next pause";
}

TEST_F(SuspendDeskTest, OneThatIsBeingPausedIsResumedBehindThat) {
    Client& client = arrive();
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    const auto its = std::make_unique<PauseReply>();
    PauseRequest request{.what = PauseRequest::pause, .by = PauseRequest::channel, .client = client.slot()};
    request.keep_memory = true;
    pauses->serve(request, *its, {});
    ask(SuspendRequest::cancel);
    EXPECT_EQ(wanted(client), Paused::held);
    EXPECT_TRUE(desk->is_busy());
    become(client, Paused::held);
    desk->look(now);
    EXPECT_EQ(wanted(client), Paused::running);
    ask(SuspendRequest::look);
    EXPECT_EQ(reply->returning, 1u);
    become(client, Paused::running);
    desk->look(now);
    ask(SuspendRequest::look);
    EXPECT_EQ(reply->returning, 0u);
    EXPECT_FALSE(desk->is_busy());
}

TEST_F(SuspendDeskTest, WhatGoesAheadChangesNothingForTheClientOrForThoseToCome) {
    Client& client = arrive();
    EXPECT_EQ(ask(SuspendRequest::ahead, client.slot()), "");
    EXPECT_EQ(files.size(), 2u);
    EXPECT_EQ(ahead, std::set{client.slot()});
    EXPECT_EQ(reply->step, Step::none);
    EXPECT_TRUE(desk->admits());
    EXPECT_EQ(wanted(client), Paused::running);
    EXPECT_EQ(ask(SuspendRequest::begin), "");
}

TEST_F(SuspendDeskTest, NothingGoesAheadWhileASuspendIsUnderWayOrWithoutAWorker) {
    Client& client = arrive();
    EXPECT_THAT(ask(SuspendRequest::ahead, client.slot() + 1), HasSubstr("has no client with a worker"));
    EXPECT_THAT(ask(SuspendRequest::ahead, 1 << 30), HasSubstr("has no client with a worker"));
    refusal = "its worker is of an earlier build";
    EXPECT_EQ(ask(SuspendRequest::ahead, client.slot()), refusal);
    EXPECT_TRUE(files.empty()) << "with a refusal";
    ahead.clear();
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    EXPECT_EQ(ask(SuspendRequest::ahead, client.slot()), "a suspend is under way");
    EXPECT_TRUE(ahead.empty());
}

TEST_F(SuspendDeskTest, ASlotWithoutAWorkerIsNotCarried) {
    ASSERT_EQ(ask(SuspendRequest::begin), "");
    EXPECT_THAT(ask(SuspendRequest::carry, 0), HasSubstr("not frozen yet"));
    ASSERT_EQ(ask(SuspendRequest::freeze), "");
    EXPECT_THAT(ask(SuspendRequest::carry, 0), HasSubstr("has no client with a worker"));
    EXPECT_THAT(ask(SuspendRequest::carry, 1 << 30), HasSubstr("has no client with a worker"));
    EXPECT_EQ(orders, 0u);
}

}  // namespace
}  // namespace barcuda
