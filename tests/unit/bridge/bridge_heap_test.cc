// SPDX-License-Identifier: Apache-2.0
// bridge_heap_test: when a client gets memory of the region, and what workers may keep for clients to come. (What a
// request is answered: requests_test.)
#include "host-bridge/bridge/heap_desk.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

struct HeapDeskTest : test::DesksTest {
    std::uint64_t granule = 0;
    void SetUp() override {
        test::DesksTest::SetUp();
        granule = host.shape().granule;
    }
    // A worker that waits, and has reserved this number of granules.
    WorkerProcess& waiting_with(int granules) {
        auto worker = test::start_worker();
        WorkerProcess& its = *worker;
        for (int i = 0; i < granules; ++i) its.reserved.push_back(grants->reserve(granule));
        pool->add(std::move(worker));
        return its;
    }
};

TEST_F(HeapDeskTest, AClientGetsMemoryAtOnceWhereThereIsSome) {
    Client& client = arrive();
    heap->ask(client, granule);
    EXPECT_FALSE(client.asked);
    EXPECT_EQ(grants->held(client.slot()), granule);
}
TEST_F(HeapDeskTest, WhatWaitingWorkersHaveReservedIsDroppedForAClientThatFindsNoRoom) {
    Client& client = arrive();
    const int all = static_cast<int>(host.shape().granule_count);
    const WorkerProcess& worker = waiting_with(all);
    heap->ask(client, granule);
    EXPECT_TRUE(client.asked) << "it waits for the worker's end";
    EXPECT_TRUE(pool->leaving_reserves());
    heap->begin_turn();
    EXPECT_TRUE(client.asked);
    test::await_end(worker);
    pool->reap_leaving();
    heap->begin_turn();
    EXPECT_FALSE(client.asked);
    EXPECT_EQ(grants->held(client.slot()), granule);
}
TEST_F(HeapDeskTest, AWorkersReservesBecomeItsClients) {
    Client& client = arrive();
    const Grants::Run run = grants->reserve(granule);
    client.worker->reserved = {run};
    heap->hand_over(client);
    EXPECT_TRUE(client.worker->reserved.empty());
    EXPECT_EQ(grants->held(client.slot()), granule);
}
TEST_F(HeapDeskTest, NothingIsReservedWhereThereIsNotPlenty) {
    EXPECT_EQ(heap->reserve(granule).bytes, 0u) << "an eighth of what is free, at most";
    rules.guest[Limit::region_memory] = granule;
    EXPECT_EQ(heap->reserve(1).bytes, 0u) << "the guest is limited";
}
TEST_F(HeapDeskTest, ClientsThatWaitAreAnsweredByTurns) {
    Client &one = arrive(), &two = arrive();
    one.asked.emplace(granule);
    two.asked.emplace(granule);
    heap->begin_turn();
    EXPECT_FALSE(one.asked);
    EXPECT_FALSE(two.asked);
}

}  // namespace
}  // namespace barcuda
