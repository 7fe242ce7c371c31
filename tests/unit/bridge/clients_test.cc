// SPDX-License-Identifier: Apache-2.0
// clients_test: a client comes, is admitted or refused, ends, and its slot is reclaimed; and what each end leaves
// behind for the client, the log and the lists.
#include "host-bridge/bridge/clients.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "host-bridge/bridge/acceptor.h"
#include "shm-device/region/client_base.h"
#include "tests/unit/support/desks.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using State = WorkerProcess::State;

struct ClientsTest : test::DesksTest {
    const barcuda_slot& slot(const Channel& channel) { return host.slots()[channel.index]; }
};

// ---- to meet and to admit
TEST_F(ClientsTest, WithoutAnyoneThereIsNoClient) {
    turn();
    clients->each([](Client&) { FAIL(); });
    EXPECT_EQ(clients->served(), 0u);
}
TEST_F(ClientsTest, AClientThatHasNotSaidItsDevicesIsMetAndNotAdmitted) {
    const Channel channel = open({});
    turn();
    const Client* const client = (*clients)[channel.index];
    ASSERT_TRUE(client);
    EXPECT_FALSE(client->worker);
    EXPECT_EQ(slot(channel).served, 0u);
    EXPECT_EQ(totals.came, 0u);
}
TEST_F(ClientsTest, AClientGetsAWorkerWithItsDevices) {
    const Channel channel = open({1, 0});
    turn();
    const Client& client = *(*clients)[channel.index];
    ASSERT_TRUE(client.worker);
    EXPECT_EQ(client.worker->state(), State::assigned);
    EXPECT_EQ(client.worker->devices(), (std::vector<int>{1, 0}));
    EXPECT_EQ(client.record.worker, client.worker->pid());
    EXPECT_EQ(client.record.text(), "pid 4711, user \"alice\", program \"a ?program?\"");
    EXPECT_EQ(slot(channel).served, slot(channel).opened);
    EXPECT_EQ(totals.came, 1u);
    EXPECT_EQ(clients->served(), 1u);
    turn();
    EXPECT_EQ(totals.came, 1u) << "it is admitted once";
}
TEST_F(ClientsTest, AreAdmittedInTheOrderInWhichTheyCame) {
    const Channel first = open({}), second = open();
    clients->look([](Client&) {});
    publish(first.client().device_count, 1u);
    const auto waiting = clients->look([](Client&) {});
    ASSERT_EQ(waiting.size(), 2u);
    EXPECT_EQ(waiting[0]->slot(), first.index);
    EXPECT_EQ(waiting[1]->slot(), second.index);
}
void is_refused(Client& client, const std::string& why) {
    EXPECT_FALSE(client.worker);
    EXPECT_EQ(client.channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_REFUSED));
    EXPECT_THAT(client.channel.status().message, HasSubstr(why));
    EXPECT_EQ(client.channel.status().fatal_error, CUDA_ERROR_DEVICE_UNAVAILABLE);
    EXPECT_EQ(client.record.end, End::refused);
    EXPECT_THAT(client.record.how, HasSubstr(why));
}
TEST_F(ClientsTest, AClientMayHaveTheRegionAtABaseOfItsOwn) {
    script = "exec sleep 3600";  // it does not read its assignment
    constexpr std::uint64_t its_own = region_base - 4 * region_size + client_base_unit;
    const Channel at_the_headers = open(), at_its_own = open_at(its_own);
    turn();
    EXPECT_EQ((*clients)[at_the_headers.index]->base, region_base);
    Client& client = *(*clients)[at_its_own.index];
    ASSERT_TRUE(client.worker);
    EXPECT_EQ(client.base, its_own);
    at_its_own.client().base = region_base;  // it changes its mind: what was checked holds
    turn();
    EXPECT_EQ(client.base, its_own);
    const File link = test::workers_link(*client.worker);
    if (!link) GTEST_SKIP() << "no descriptor of another process may be taken here: " << std::strerror(errno);
    Assignment job;
    ASSERT_EQ(recv(link.fd(), &job, sizeof job, 0), static_cast<ssize_t>(sizeof job));
    EXPECT_EQ(job.base, its_own);
}
TEST_F(ClientsTest, ABaseWhereNoRegionMayLieIsRefused) {
    constexpr unsigned long long user_end = 1ull << 47;
    for (const unsigned long long base : {1ull, 0ull + region_base + BARCUDA_PAGE, user_end, user_end - BARCUDA_GRANULE,
                                          ~0ull, ~0ull - BARCUDA_GRANULE + 1}) {
        const Channel channel = open_at(base);
        turn();
        is_refused(*(*clients)[channel.index], "no process can map it");
        guest.leave_channel(const_cast<Channel&>(channel));
    }
    EXPECT_EQ(totals.came, 0u);
}
TEST_F(ClientsTest, ABaseAmongTheGpusOwnMemoryIsRefused) {
    for (const std::uint64_t base :
         {BARCUDA_GRANULE, BARCUDA_DEVICE_POOLS_END - BARCUDA_GRANULE, BARCUDA_DEVICE_MAPPED - BARCUDA_GRANULE,
          BARCUDA_DEVICE_MAPPED, BARCUDA_DEVICE_END - BARCUDA_GRANULE}) {
        const Channel channel = open_at(base);
        turn();
        is_refused(*(*clients)[channel.index], "where the GPU's own memory is");
        guest.leave_channel(const_cast<Channel&>(channel));
    }
    EXPECT_EQ(totals.came, 0u);
}
TEST_F(ClientsTest, AClientThatAsksForAnUnknownDeviceIsRefused) {
    is_refused(arrive({2}), "a device that does not exist");
    is_refused(arrive({0, 0}), "one device twice");
    EXPECT_EQ(totals.came, 0u);
}
TEST_F(ClientsTest, MoreClientsThanTheGuestMayHaveAreRefused) {
    rules.guest[Limit::channels] = 1;
    EXPECT_TRUE(arrive().worker);
    is_refused(arrive(), "as many clients as it may have (1)");
}
TEST_F(ClientsTest, AClientWhoseWorkerCannotBeStartedIsRefused) {
    can_start = false;
    Client& client = arrive();
    is_refused(client, "cannot start a worker: Too many open files");
    EXPECT_EQ(host.slots()[client.slot()].served, 1u) << "it is not tried again";
}
TEST_F(ClientsTest, MoreClientsThanMayStartInASecondWait) {
    rules.guest[Limit::starts] = 1;
    for (int i = 0; i < 5; ++i) open();
    turn();
    EXPECT_TRUE(acceptor->some_wait());
    EXPECT_EQ(totals.came, 4u) << "four seconds' worth at once";
    acceptor->admit(
        clients->look([](Client&) {}), [](Client&) {}, Acceptor::Clock::now() + std::chrono::seconds(2));
    EXPECT_FALSE(acceptor->some_wait());
    EXPECT_EQ(totals.came, 5u);
}

// ---- what the root of a guest writes into the slot of a client that is served
TEST_F(ClientsTest, AServedClientIsNotAdmittedAgainWhateverItsSlotSays) {
    Client& client = arrive();
    const pid_t worker = client.worker->pid();
    publish(host.host_slots()[client.slot()].served, 0u);
    turn();
    EXPECT_EQ(totals.came, 1u);
    ASSERT_TRUE(client.is_served());
    EXPECT_EQ(client.worker->pid(), worker);
    EXPECT_EQ(kill(worker, 0), 0);
}
TEST_F(ClientsTest, APausedClientIsResumedByTheSameWorker) {
    Client& client = arrive();
    const pid_t worker = client.worker->pid();
    ASSERT_EQ(pauses->park(client).text(), "");
    publish(host.host_slots()[client.slot()].served, 0u);
    turn();
    ASSERT_EQ(client.worker->pid(), worker);
    const std::uint32_t before = client.worker->sheet().orders.order;
    Orders& orders = client.worker->sheet().orders;
    publish(orders.is, static_cast<std::uint32_t>(Paused::away));
    publish(orders.done, before);
    pauses->look();
    pauses->unpark(client);
    pauses->look();
    EXPECT_EQ(orders.order, before + 1) << "its worker is told";
}
TEST_F(ClientsTest, ARefusedClientIsNotAskedAgainWhateverItsSlotSays) {
    Client& client = arrive({2});
    client.record.how = "told";
    publish(host.host_slots()[client.slot()].served, 0u);
    publish(client.page().devices[0], 0);
    turn();
    EXPECT_FALSE(client.worker);
    EXPECT_EQ(client.record.how, "told");
    EXPECT_EQ(totals.came, 0u);
}
TEST_F(ClientsTest, AnotherOpeningIsTheEndOfTheClientThatWasThere) {
    const Channel channel = open();
    turn();
    const std::uint32_t its = channel.index;
    const pid_t worker = (*clients)[its]->worker->pid();
    ASSERT_NE(grants->grant(its, host.shape().granule).bytes, 0u);
    publish(host.host_slots()[its].opened, channel.opening + 1);
    turn();
    ASSERT_TRUE((*clients)[its]->worker->is_leaving());
    test::await_end(*(*clients)[its]->worker);
    turn();
    EXPECT_EQ(kill(worker, 0), -1);
    EXPECT_EQ(grants->held(its), 0u);
    EXPECT_THAT(roster, testing::Contains(Pair(its, 0))) << "what was ordered of it is forgotten";
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::left)], 1u);
    EXPECT_EQ(totals.came, 1u);
    turn();
    publish(channel.client().device_count, 1u);
    turn();
    EXPECT_EQ(totals.came, 2u);
    EXPECT_EQ((*clients)[its]->channel.opening, channel.opening + 1);
    EXPECT_TRUE((*clients)[its]->is_served());
}
TEST_F(ClientsTest, ASlotThatSeemsFreeIsTheEndOfItsClient) {
    Client& client = arrive();
    const std::uint32_t its = client.slot();
    publish(host.host_slots()[its].opened, 0u);
    turn();
    ASSERT_TRUE(client.worker->is_leaving());
    test::await_end(*client.worker);
    turn();
    EXPECT_FALSE((*clients)[its]);
}

// ---- to end
TEST_F(ClientsTest, AWorkersDeathEndsTheSession) {
    Client& client = arrive();
    const std::uint32_t its = client.slot();
    kill_worker(client);
    EXPECT_FALSE(client.worker);
    EXPECT_EQ(client.channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_DEAD));
    EXPECT_STREQ(client.channel.status().message, "the worker process was killed by signal 9 (Killed)");
    EXPECT_EQ(client.record.end, End::died);
    EXPECT_EQ(client.record.how, "its worker was killed by signal 9 (Killed)");
    EXPECT_THAT(roster, ElementsAre(Pair(its, 0)));
}
TEST_F(ClientsTest, AWorkerThatHasSaidWhyItEndsIsBelieved) {
    Client& client = arrive();
    std::strcpy(client.channel.status().message, "its own words");
    publish(client.channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_REFUSED));
    kill_worker(client);
    EXPECT_STREQ(client.channel.status().message, "its own words");
    EXPECT_EQ(client.record.end, End::refused);
}
TEST_F(ClientsTest, OneEndIsSaidAndTheFirstReasonCounts) {
    Client& client = arrive();
    client.end_worker("it broke the protocol");
    EXPECT_EQ(client.worker->state(), State::leaving);
    EXPECT_FALSE(client.is_served());
    EXPECT_TRUE(clients->one_leaves());
    test::await_end(*client.worker);
    clients->reap_workers();
    EXPECT_FALSE(client.worker);
    EXPECT_STREQ(client.channel.status().message, "it broke the protocol");
    EXPECT_EQ(client.record.how, "it broke the protocol");
    EXPECT_EQ(client.record.end, End::died);
}
TEST_F(ClientsTest, ABridgeThatStopsTellsItsClientsAndNotTheirRecords) {
    Client& client = arrive();
    client.end(Client::Ending::stopped, "the bridge has been stopped");
    EXPECT_EQ(client.channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_GONE));
    EXPECT_FALSE(client.record.end);
}

struct WarmClientsTest : ClientsTest {
    // A worker that waits with its driver open is given to a client.
    Client& arrive_warm() {
        auto worker = start({0});
        test::open_driver(*worker);
        worker->look();
        pool->add(std::move(worker));
        return arrive();
    }
};
TEST_F(WarmClientsTest, AWorkerThatDiesBeforeItDidAnythingIsReplacedOnce) {
    Client& client = arrive_warm();
    const std::uint32_t its = client.slot();
    const pid_t first = client.worker->pid();
    ASSERT_NE(grants->grant(its, host.shape().granule).bytes, 0u);
    quotas.note(its, 0, 5);
    kill_worker(client);
    EXPECT_FALSE(client.worker);
    EXPECT_FALSE(client.has_ended());
    EXPECT_THAT(roster, ElementsAre(Pair(its, 0)));
    EXPECT_EQ(quotas.held(its, 0), 0u) << "of the first worker";
    EXPECT_EQ(grants->held(its), host.shape().granule);
    turn();
    ASSERT_TRUE(client.is_served());
    EXPECT_NE(client.worker->pid(), first);
    EXPECT_EQ(client.record.worker, client.worker->pid());
    EXPECT_EQ(totals.came, 1u);
    kill_worker(client);
    EXPECT_TRUE(client.has_ended()) << "it is no accident";
    EXPECT_EQ(client.record.end, End::died);
}
TEST_F(WarmClientsTest, AWorkerThatHasHadACommandIsNotReplaced) {
    Client& client = arrive_warm();
    client.worker->sheet().counts.commands = 1;
    kill_worker(client);
    EXPECT_TRUE(client.has_ended());
}
TEST_F(WarmClientsTest, AWorkerThatHasToldItsClientToBeginIsNotReplaced) {
    Client& client = arrive_warm();
    publish(client.channel.status().state, static_cast<barcuda_u32>(BARCUDA_STATE_READY));
    kill_worker(client);
    EXPECT_TRUE(client.has_ended());
}
TEST_F(WarmClientsTest, AWorkerThatWasToldToEndIsNotReplaced) {
    Client& client = arrive_warm();
    client.end_worker("it broke the protocol");
    test::await_end(*client.worker);
    clients->reap_workers();
    turn();
    EXPECT_FALSE(client.worker);
    EXPECT_STREQ(client.channel.status().message, "it broke the protocol");
}

// ---- a channel that cannot be mapped at the moment
struct WithoutMemory {  // for new mappings
    rlimit before{};
    WithoutMemory() {
        getrlimit(RLIMIT_AS, &before);
        const rlimit none{1, before.rlim_max};
        setrlimit(RLIMIT_AS, &none);
    }
    ~WithoutMemory() { setrlimit(RLIMIT_AS, &before); }
};
TEST_F(ClientsTest, AChannelThatCannotBeMappedIsTriedAgain) {
    if (sanitized) GTEST_SKIP() << "a sanitizer maps memory itself";
    const Channel channel = open();
    auto now = Clients::Clock::now();
    {
        const WithoutMemory none;
        EXPECT_TRUE(clients->look([](Client&) {}, now).empty());
    }
    EXPECT_FALSE((*clients)[channel.index]);
    EXPECT_EQ(slot(channel).served, 0u) << "it is not served";
    EXPECT_TRUE(clients->look([](Client&) {}, now).empty()) << "not in each turn";
    now += std::chrono::seconds(2);
    ASSERT_EQ(clients->look([](Client&) {}, now).size(), 1u);
    EXPECT_EQ((*clients)[channel.index]->number, 1u);
}

// ---- to reclaim
TEST_F(ClientsTest, AClosedSlotIsReclaimedWithAllThatItHeld) {
    Channel channel = open();
    turn();
    const std::uint32_t its = channel.index;
    Client* const client = (*clients)[its];
    ASSERT_NE(grants->grant(its, host.shape().granule).bytes, 0u);
    quotas.note(its, 0, 5);
    Shared::Handle handle{};
    ASSERT_TRUE(shared.offer(its, Shared::Kind::memory, handle));
    const pid_t worker = client->worker->pid();
    guest.close_channel(channel);
    turn();
    if ((*clients)[its]) {  // its worker takes a moment to end
        test::await_end(*client->worker);
        turn();
    }
    EXPECT_FALSE((*clients)[its]);
    EXPECT_EQ(host.slots()[its].reclaimed, host.slots()[its].closed);
    EXPECT_EQ(grants->held(its), 0u);
    EXPECT_EQ(quotas.held(its, 0), 0u);
    EXPECT_EQ(shared.size(), 0u);
    EXPECT_EQ(kill(worker, 0), -1);
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::left)], 1u);
}
TEST_F(ClientsTest, AProcessThatOnlyWatchesIsCountedNowhere) {
    Channel channel = open({});
    turn();
    guest.close_channel(channel);
    turn();
    EXPECT_FALSE((*clients)[channel.index]);
    EXPECT_EQ(totals.went[static_cast<unsigned>(End::left)], 0u);
}
TEST_F(ClientsTest, WhatAnEarlierBridgeLeftIsReclaimedAndItsClientsAreNotServed) {
    Channel left = open(), there = open();
    for (const Channel& c : {left, there}) publish(host.host_slots()[c.index].served, 1u);
    publish(host.host_slots()[left.index].closed, 1u);
    clients->reclaim_left();
    EXPECT_EQ(host.slots()[left.index].reclaimed, 1u);
    turn();
    EXPECT_FALSE((*clients)[there.index]);
}

// ---- what the pool hears of them
TEST_F(ClientsTest, SayWhetherAWorkerOfTheirsStarts) {
    Client& client = arrive();
    EXPECT_TRUE(clients->state().one_starts);
    test::open_driver(*client.worker);
    EXPECT_FALSE(clients->state().one_starts);
    EXPECT_FALSE(clients->state().one_asks);
    client.asked.emplace(1);
    EXPECT_TRUE(clients->state().one_asks);
}

}  // namespace
}  // namespace barcuda
