// SPDX-License-Identifier: Apache-2.0
// list_desk_test: what `barcuda ps` learns of a bridge, its GPUs and its clients.
#include "host-bridge/bridge/list_desk.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

struct ListDeskTest : test::DesksTest {
    std::unique_ptr<ListDesk> list;
    std::unique_ptr<ListReply> reply = std::make_unique<ListReply>();
    Busy busy{};
    bool busy_is_known = false;
    int wanted = 0;

    void SetUp() override {
        test::DesksTest::SetUp();
        list = std::make_unique<ListDesk>(
            ListDesk::About{"vm1", "/the/region", true, host.shape(), {}},
            ListDesk::Asks{[] { return true; }, [] { return 3u; },
                           [this](auto) { return busy_is_known ? &busy : nullptr; }, [this] { ++wanted; }},
            *clients, quotas, *grants, totals, gpus, *limits, *pauses, *cards);
    }
    const ListReply& ask(const ListRequest& request = {}) {
        *reply = {};
        list->serve(request, *reply);
        return *reply;
    }
};

TEST_F(ListDeskTest, TellsOfTheBridgeAndItsGpus) {
    quotas.note(0, 1, 99);
    const ListReply& answer = ask();
    EXPECT_STREQ(answer.name, "vm1");
    EXPECT_STREQ(answer.region, "/the/region");
    EXPECT_TRUE(answer.no_vm);
    EXPECT_TRUE(answer.interrupts);
    EXPECT_EQ(answer.warm, 3u);
    EXPECT_EQ(answer.region_size, host.shape().size);
    EXPECT_EQ(answer.channels, host.shape().channel_count);
    ASSERT_EQ(answer.gpu_count, 2u);
    EXPECT_EQ(answer.gpus[1].memory, GiB);
    EXPECT_EQ(answer.gpus[1].held, 99u);
    EXPECT_EQ(answer.gpus[0].busy, Busy::unknown);
    EXPECT_EQ(answer.clients, 0u);
}
TEST_F(ListDeskTest, TellsOfAClientWhatItsWorkerHasCounted) {
    Client& client = arrive({1});
    Sheet& sheet = client.worker->sheet();
    sheet.counts.commands = 12;
    publish(sheet.device_memory[0], 40u);
    publish(sheet.device_memory_most[0], 50u);
    publish(sheet.use[static_cast<unsigned>(Limit::work)], 4u);
    const ListReply& answer = ask();
    EXPECT_EQ(answer.clients, 1u);
    EXPECT_EQ(answer.came, 1u);
    EXPECT_EQ(answer.queued, 4u);
    ASSERT_EQ(answer.count, 1u);
    const ListedClient& row = answer.rows[0];
    EXPECT_EQ(row.worker, client.worker->pid());
    EXPECT_EQ(row.pid, 4711u);
    EXPECT_STREQ(row.program, "a \"program\"");
    EXPECT_STREQ(row.user, "alice");
    EXPECT_EQ(row.counts.commands, 12u);
    EXPECT_EQ(row.device_memory[0], 0u);
    EXPECT_EQ(row.device_memory[1], 40u) << "by the region's numbers";
    EXPECT_EQ(row.most_device_memory, 50u);
    EXPECT_EQ(row.queued, 4u);
}
TEST_F(ListDeskTest, CountsOfClientsThatAreGoneStay) {
    Client& client = arrive();
    client.worker->sheet().counts.launches = 5;
    kill_worker(client);
    EXPECT_EQ(ask().counts.launches, 5u);
    EXPECT_EQ(reply->clients, 0u);
    EXPECT_EQ(reply->rows[0].worker, 0);
    publish(host.host_slots()[client.slot()].closed, 1u);
    turn();
    EXPECT_EQ(ask().counts.launches, 5u);
    EXPECT_EQ(reply->count, 0u);
    EXPECT_EQ(reply->went[static_cast<unsigned>(End::died)], 1u);
}
TEST_F(ListDeskTest, AProcessThatOnlyWatchesIsListedWithoutAWorker) {
    open({});
    turn();
    const ListReply& answer = ask();
    ASSERT_EQ(answer.count, 1u);
    EXPECT_EQ(answer.rows[0].worker, 0);
    EXPECT_STREQ(answer.rows[0].user, "alice");
    EXPECT_EQ(answer.clients, 0u);
}
TEST_F(ListDeskTest, GoesOnFromAChannel) {
    arrive();
    const Client& second = arrive();
    ListRequest request;
    request.from = second.slot();
    ASSERT_EQ(ask(request).count, 1u);
    EXPECT_EQ(reply->rows[0].channel, second.slot());
    EXPECT_EQ(reply->next, 0u);
}
TEST_F(ListDeskTest, HowBusyGpusAreIsToldWhereItIsKnownAndWantedWhereItIsAsked) {
    const Client& client = arrive();
    ask();
    EXPECT_EQ(wanted, 0);
    busy_is_known = true;
    busy.gpus[0] = 42;
    busy.clients[client.slot()][0] = 41;
    ListRequest request;
    request.busy = true;
    ask(request);
    EXPECT_EQ(wanted, 1);
    EXPECT_EQ(reply->gpus[0].busy, 42);
    EXPECT_EQ(reply->rows[0].busy[0], 41);
}

}  // namespace
}  // namespace barcuda
