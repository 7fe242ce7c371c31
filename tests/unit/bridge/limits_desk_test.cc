// SPDX-License-Identifier: Apache-2.0
// limits_desk_test: a client's limits, what its worker learns of them, and what `barcuda limit` is answered.
#include "host-bridge/bridge/limits_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

constexpr std::uint64_t unlimited = ~std::uint64_t{0}, MiB = 1 << 20;
constexpr ucred by{1, 0, 0};
constexpr unsigned index(Limit limit) { return static_cast<unsigned>(limit); }

struct LimitsDeskTest : test::DesksTest {
    std::unique_ptr<LimitReply> reply = std::make_unique<LimitReply>();
    const LimitReply& ask(const LimitRequest& request) {
        *reply = {};
        limits->serve(request, *reply, by);
        return *reply;
    }
    static LimitRequest set(LimitRequest::Whose whose, Limit limit, std::uint64_t value) {
        LimitRequest request;
        request.whose = whose;
        request.given[index(limit)] = true;
        request.values[index(limit)] = value;
        return request;
    }
    static LimitRequest set_of(std::uint32_t channel, Limit limit, std::uint64_t value) {
        LimitRequest request = set(LimitRequest::one_clients, limit, value);
        request.by = LimitRequest::channel;
        request.client = channel;
        return request;
    }
};

// ---- what is allowed
TEST_F(LimitsDeskTest, WhatWasChangedHoldsForTheNextBridgeToo) {
    Twice<KeptRules> book;
    rules.guest[Limit::channels] = 3;
    const auto begin = [&] {
        limits.emplace(
            LimitsDesk::Rules{rules, share, &book}, *clients, quotas, *grants, host, gpus, turns, [](std::uint64_t) {},
            *rooms);
    };
    begin();
    EXPECT_EQ(limits->of_guest(Limit::channels), 3u) << "nothing was changed";
    LimitRequest request;
    request.whose = LimitRequest::the_guests;
    request.given[static_cast<unsigned>(Limit::channels)] = true;
    request.values[static_cast<unsigned>(Limit::channels)] = 7;
    LimitReply reply;
    limits->serve(request, reply, {});
    rules = {};
    begin();
    EXPECT_EQ(limits->of_guest(Limit::channels), 7u);
}
TEST_F(LimitsDeskTest, OwnLimitsComeBeforeThoseOfEachClient) {
    Client& client = arrive();
    rules.client[Limit::objects] = 5;
    EXPECT_EQ(limits->of(client, Limit::objects), 5u);
    client.own[index(Limit::objects)] = 0;
    EXPECT_EQ(limits->of(client, Limit::objects), 0u) << "none";
}
TEST_F(LimitsDeskTest, RoomIsTheLeastOfTheClientsAndTheGuests) {
    const std::uint64_t granule = host.shape().granule;
    const std::uint32_t one = arrive().slot(), two = arrive().slot();
    EXPECT_EQ(limits->room(one), unlimited);
    rules.client[Limit::region_memory] = 4 * granule;
    ASSERT_NE(grants->grant(one, granule).bytes, 0u);
    EXPECT_EQ(limits->room(one), 3 * granule);
    EXPECT_EQ(limits->room(two), 4 * granule);
    rules.guest[Limit::region_memory] = 2 * granule;
    EXPECT_EQ(limits->room(two), granule);
    rules.guest[Limit::region_memory] = granule / 2;
    EXPECT_EQ(limits->room(two), 0u) << "less than what is held already";
}
TEST_F(LimitsDeskTest, NothingIsReservedForClientsToComeWhereTheGuestIsLimited) {
    rules.client[Limit::region_memory] = MiB;
    EXPECT_TRUE(limits->may_reserve(MiB));
    EXPECT_FALSE(limits->may_reserve(MiB + 1));
    rules.guest[Limit::region_memory] = 100 * MiB;
    EXPECT_FALSE(limits->may_reserve(1));
}
TEST_F(LimitsDeskTest, HostMemoryIsBoundedByAllThatAClientMayHaveThere) {
    Client& client = arrive({0, 1});
    EXPECT_EQ(limits->host_memory(client), 0u) << "any amount";
    rules.client[Limit::worker_memory] = 7;
    EXPECT_EQ(limits->host_memory(client), 7 + host.shape().size + 2 * GiB);
    rules.client[Limit::device_memory] = MiB;
    rules.guest[Limit::region_memory] = 3 * MiB;
    EXPECT_EQ(limits->host_memory(client), 7 + 3 * MiB + 2 * MiB);
}

// ---- what workers learn
TEST_F(LimitsDeskTest, ANewLimitIsTheWorkersAtOnce) {
    const Client& client = arrive();
    const Sheet& sheet = client.worker->sheet();
    EXPECT_EQ(sheet.limits[index(Limit::objects)], 0u);
    ask(set(LimitRequest::each_clients, Limit::objects, 9));
    EXPECT_EQ(sheet.limits[index(Limit::objects)], 9u);
}
TEST_F(LimitsDeskTest, DeviceMemoryIsTheLesserOfTwoLimitsForWorkersAndForGuests) {
    const Client& client = arrive();
    ask(set(LimitRequest::each_clients, Limit::device_memory, 8 * MiB));
    ask(set(LimitRequest::the_guests, Limit::device_memory, 4 * MiB));
    EXPECT_EQ(client.worker->sheet().limits[index(Limit::device_memory)], 4 * MiB);
    EXPECT_EQ(host.devices()[0].total_memory, 4 * MiB);
    EXPECT_EQ(shown, 4 * MiB);
}
TEST_F(LimitsDeskTest, WhatWorkersHaveCountedIsNotedByTheRegionsNumbers) {
    const Client& client = arrive({1});
    publish(client.worker->sheet().device_memory[0], 77u);
    limits->note_memory();
    EXPECT_EQ(quotas.held(client.slot(), 0), 0u);
    EXPECT_EQ(quotas.held(client.slot(), 1), 77u);
}

// ---- `barcuda limit`
TEST_F(LimitsDeskTest, ARequestThatOnlyShowsChangesNothing) {
    rules.client[Limit::objects] = 3;
    const Client& client = arrive();
    publish(client.worker->sheet().use[index(Limit::objects)], 2u);
    const LimitReply& answer = ask({});
    EXPECT_STREQ(answer.error, "");
    EXPECT_EQ(answer.client[index(Limit::objects)], 3u);
    EXPECT_EQ(answer.use[index(Limit::channels)], 1u);
    ASSERT_EQ(answer.count, 1u);
    EXPECT_EQ(answer.rows[0].channel, client.slot());
    EXPECT_EQ(answer.rows[0].worker, client.worker->pid());
    EXPECT_EQ(answer.rows[0].pid, 4711u);
    EXPECT_EQ(answer.rows[0].use[index(Limit::objects)], 2u);
    EXPECT_EQ(answer.rows[0].limits[index(Limit::objects)], 3u);
    EXPECT_FALSE(answer.rows[0].own[index(Limit::objects)]);
}
TEST_F(LimitsDeskTest, OneClientsLimitIsItsOwn) {
    const Client &one = arrive(), &two = arrive();
    const LimitReply& answer = ask(set_of(one.slot(), Limit::objects, 6));
    EXPECT_STREQ(answer.error, "");
    EXPECT_TRUE(answer.rows[0].own[index(Limit::objects)]);
    EXPECT_EQ(one.worker->sheet().limits[index(Limit::objects)], 6u);
    EXPECT_EQ(two.worker->sheet().limits[index(Limit::objects)], 0u);
    EXPECT_EQ(rules.client[Limit::objects], 0u);
}
TEST_F(LimitsDeskTest, WhatIsNoLimitOfAGuestsIsRefusedAndChangesNothing) {
    EXPECT_STREQ(ask(set(LimitRequest::the_guests, Limit::objects, 6)).error, "objects is no limit of a guest's");
    EXPECT_STREQ(ask(set(LimitRequest::each_clients, Limit::channels, 6)).error, "channels is no limit of a client's");
    EXPECT_EQ(rules.guest[Limit::objects], 0u);
}
TEST_F(LimitsDeskTest, AClientMustBeNamedPlainly) {
    arrive();
    arrive();
    LimitRequest request = set(LimitRequest::one_clients, Limit::objects, 6);
    request.client = 4711;
    EXPECT_THAT(ask(request).error, testing::HasSubstr("several clients"));
    request.client = 4712;
    EXPECT_STREQ(ask(request).error, "there is no such client");
}
TEST_F(LimitsDeskTest, AWeightNeedsTurns) {
    LimitRequest request;
    request.weight_given = true;
    request.share.weight = 50;
    EXPECT_THAT(ask(request).error, testing::HasSubstr("take no turns"));
    EXPECT_EQ(share.weight, 0u);
    ASSERT_EQ(turns.join(scratch / "turns", share, static_cast<std::uint32_t>(getpid())).text(), "");
    EXPECT_STREQ(ask(request).error, "");
    EXPECT_EQ(share.weight, 50u);
    request.share.weight = turns::most_weight + 1;
    EXPECT_THAT(ask(request).error, testing::HasSubstr("at most"));
    EXPECT_EQ(share.weight, 50u);
}
TEST_F(LimitsDeskTest, WhereTurnsDoNotComeWorkersWaitForNone) {
    ASSERT_EQ(turns.join(scratch / "turns", share, static_cast<std::uint32_t>(getpid())).text(), "");
    Client& client = arrive();
    limits->look_at_turns(client);
    EXPECT_EQ(client.worker->sheet().turns_off_until, 0u);
    publish(client.worker->sheet().vain_turns, 1u);
    limits->look_at_turns(client);
    EXPECT_NE(client.worker->sheet().turns_off_until, 0u);
}

}  // namespace
}  // namespace barcuda
