// SPDX-License-Identifier: Apache-2.0
// desks_test: what the parts of a bridge decide together: what tools may change while a VM is being suspended, which
// processes are workers, when the loop must look often, and how all workers end.
#include "host-bridge/bridge/desks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/support/keeper_thread.h"
#include "tests/unit/support/region_fixture.h"
#include "tests/unit/support/shell_worker.h"

namespace barcuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using State = WorkerProcess::State;

struct AllDesksTest : testing::Test {
    test::Scratch scratch;
    test::KeeperThread keeper;
    Loop loop;
    Monitoring monitoring;
    Ground ground;
    std::optional<Desks> desks;
    Region guest;

    void SetUp() override {
        const std::string path = scratch / "region";
        ground.options.region = path;
        ASSERT_FALSE(ground.region.create(
            path.c_str(), {.size = region_size, .base = region_base, .build = "test build", .rows = region_rows}));
        ground.region.announce();
        ASSERT_FALSE(guest.open(path.c_str()));
        ground.host.devices.all.resize(1);
        ground.host.every = {0};
        ASSERT_EQ(ground.ledger.make(ground.region.shape()).text(), "");
    }
    void open_desks() { desks.emplace(ground, loop, monitoring, std::chrono::system_clock::now()); }
    // A client with a worker, to which the bridge listens.
    Client& arrive(const std::string& script = test::idle) {
        Channel channel;
        EXPECT_FALSE(guest.open_channel(channel));
        desks->clients.look([](Client&) {});
        Client& client = *desks->clients[channel.index];
        client.worker = test::start_worker(script, {0});
        client.worker->assign("a worker");
        client.record.worker = client.worker->pid();
        publish(ground.region.host_slots()[channel.index].served, channel.opening);
        return client;
    }
    void turn() {
        while (loop.wait(std::chrono::milliseconds(0)))
            if (!loop.dispatch()) break;
    }
    template <class Reply, class Request, class Answer> std::string ask(const Answer& answer, const Request& request) {
        const auto reply = std::make_unique<Reply>();
        answer(request, *reply, ucred{});
        return reply->error;
    }
};

TEST_F(AllDesksTest, WhileAVmIsBeingWrittenToADiskToolsMayLookAndChangeNothing) {
    open_desks();
    const Control::Answers answers = desks->answers({});
    LimitRequest limit;
    limit.whose = LimitRequest::the_guests;
    limit.given[static_cast<unsigned>(Limit::channels)] = true;
    limit.values[static_cast<unsigned>(Limit::channels)] = 3;
    PauseRequest pause{.what = PauseRequest::pause};
    pause.within = 1000;
    const auto change = [&] {
        return std::pair(ask<LimitReply>(answers.limits, limit), ask<PauseReply>(answers.pause, pause));
    };
    EXPECT_EQ(change(), std::pair(std::string(), std::string()));
    EXPECT_EQ(ask<SuspendReply>(answers.suspend, SuspendRequest{.what = SuspendRequest::begin}), "");
    EXPECT_EQ(change(), std::pair(std::string(), std::string())) << "clients are being paused yet";
    EXPECT_EQ(ask<SuspendReply>(answers.suspend, SuspendRequest{.what = SuspendRequest::freeze}), "");
    limit.values[static_cast<unsigned>(Limit::channels)] = 4;
    const auto [of_limit, of_pause] = change();
    EXPECT_THAT(of_limit, HasSubstr("the VM is being suspended"));
    EXPECT_EQ(of_pause, of_limit);
    EXPECT_EQ(desks->limits.of_guest(Limit::channels), 3u);
    EXPECT_EQ(ask<LimitReply>(answers.limits, LimitRequest{}), "");
    EXPECT_EQ(ask<PauseReply>(answers.pause, PauseRequest{}), "");
    EXPECT_EQ(ask<ListReply>([&](const auto& r, auto& to, const ucred& by) { answers.list(r, to, by); }, ListRequest{}),
              "");
    EXPECT_EQ(ask<SuspendReply>(answers.suspend, SuspendRequest{.what = SuspendRequest::cancel}), "");
    EXPECT_EQ(change(), std::pair(std::string(), std::string()));
}
TEST_F(AllDesksTest, LooksOftenWhileSomethingIsUnderWay) {
    open_desks();
    EXPECT_FALSE(desks->is_busy());
    const Control::Answers answers = desks->answers({});
    ask<SuspendReply>(answers.suspend, SuspendRequest{.what = SuspendRequest::begin});
    EXPECT_TRUE(desks->is_busy()) << "a suspend";
    ask<SuspendReply>(answers.suspend, SuspendRequest{.what = SuspendRequest::cancel});
    EXPECT_FALSE(desks->is_busy());
    auto worker = test::start_worker("exec sleep 3600");
    const WorkerProcess& its = *worker;
    desks->pool.dismiss(std::move(worker));
    EXPECT_TRUE(desks->is_busy()) << "a worker that ends";
    test::await_end(its);
    desks->pool.reap_leaving();
    EXPECT_FALSE(desks->is_busy());
    Client& client = arrive();
    EXPECT_FALSE(desks->is_busy());
    client.end_worker("it broke the protocol");
    EXPECT_TRUE(desks->is_busy()) << "a client's worker that ends";
}
TEST_F(AllDesksTest, WorkersAreThoseOfClientsThoseThatWaitAndThoseThatEnd) {
    open_desks();
    const pid_t of_client = arrive().worker->pid();
    auto waits = test::start_worker(), leaves = test::start_worker("exec sleep 3600");
    const pid_t waiting = waits->pid(), leaving = leaves->pid();
    desks->pool.add(std::move(waits));
    desks->pool.dismiss(std::move(leaves));
    for (const pid_t its : {of_client, waiting, leaving}) EXPECT_TRUE(desks->has_worker(its));
    for (const pid_t other : {getpid(), getppid(), -1, 0}) EXPECT_FALSE(desks->has_worker(other));
}
TEST_F(AllDesksTest, AllWorkersEndAndNoClientIsTold) {
    open_desks();
    Client &first = arrive(), &second = arrive("exec sleep 3600");
    const pid_t of_client = second.worker->pid();
    auto waits = test::start_worker();
    const pid_t waiting = waits->pid();
    desks->pool.add(std::move(waits));
    unsigned beats = 0;
    desks->end_workers([&] { ++beats; });
    EXPECT_EQ(kill(of_client, 0), -1);
    EXPECT_EQ(kill(waiting, 0), -1);
    for (const Client* client : {&first, &second}) {
        EXPECT_EQ(client->worker->state(), State::ended);
        EXPECT_FALSE(client->has_ended());
        EXPECT_FALSE(client->record.end);
    }
}
TEST_F(AllDesksTest, AWorkersEndIsHeardAndEndsItsClient) {
    open_desks();
    Client& client = arrive();
    desks->hear_end(client);
    desks->hear_requests(client);
    kill(client.worker->pid(), SIGKILL);
    test::await_end(*client.worker);
    turn();
    EXPECT_FALSE(client.worker);
    EXPECT_TRUE(client.has_ended());
    EXPECT_THAT(client.record.how, HasSubstr("was killed by signal 9"));
}
TEST_F(AllDesksTest, AWorkerThatCannotBeListenedToEnds) {
    open_desks();
    Client& client = arrive("exec sleep 3600");
    desks->hear_requests(client);
    EXPECT_TRUE(client.is_served());
    desks->hear_requests(client);  // its link is watched already
    EXPECT_EQ(client.worker->state(), State::leaving);
    EXPECT_EQ(client.record.how, "the bridge cannot listen to the worker");
}
TEST_F(AllDesksTest, WhatTheKeeperCannotKeepIsNotShared) {
    ground.kept = Kept(std::move(keeper.link));
    open_desks();
    File file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::uint32_t slot = arrive().slot();
    Shared::Handle token{};
    const test::NoMoreFiles none;
    EXPECT_FALSE(desks->shared.offer(slot, Shared::Kind::allocation, token, std::move(file)));
}
TEST_F(AllDesksTest, WhatClientsShareIsKeptBesideOtherThings) {
    ground.kept = Kept(std::move(keeper.link));
    open_desks();
    const File file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ground.kept.keep("books", file.fd());
    const std::uint32_t slot = arrive().slot();
    Shared::Handle token{};
    ASSERT_TRUE(desks->shared.offer(slot, Shared::Kind::allocation, token, File(dup(file.fd()))));
    desks->shared.confirm(token);
    const std::vector<std::string> names = ground.kept.names("shared.");
    ASSERT_EQ(names.size(), 1u);
    ground.kept.keep(names[0] + "9", file.fd());  // of a bridge that was killed before it wrote that down
    desks.reset();
    Ledger next;  // of the bridge that follows
    ASSERT_EQ(next.open(File(dup(ground.ledger.fd()))).text(), "");
    ground.ledger = std::move(next);
    open_desks();
    desks->shared.restore([](std::uint32_t) { return true; });
    const Shared::Thing* const thing = desks->shared.find(Shared::Kind::allocation, token);
    ASSERT_TRUE(thing);
    EXPECT_TRUE(thing->file);
    EXPECT_EQ(ground.kept.names("shared."), names);
    desks->shared.withdraw(slot, token);
    EXPECT_THAT(ground.kept.names(""), ElementsAre("books"));
    desks.reset();
    ground.kept = Kept();
}

}  // namespace
}  // namespace barcuda
