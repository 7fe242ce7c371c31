// SPDX-License-Identifier: Apache-2.0
// idle_contexts_test: an idle client is parked while another one waits for a full card, and comes back when it works.
// Another bridge's client fills the card.
#include "host-bridge/bridge/idle_contexts.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "shm-device/queue/wait.h"
#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

using residency::second;
using residency::Time;

struct IdleContextsTest : test::DesksTest {
    static constexpr Time idle = 300 * second;
    residency::Policy policy;
    cards::Member other;  // another bridge
    std::optional<cards::Claim> full;
    std::unique_ptr<IdleContexts> contexts;
    Client *lazy = nullptr, *waiter = nullptr;
    Time start = 0;

    void SetUp() override {
        const std::string path = scratch / "cards";
        ASSERT_EQ(book.join(path, 1).text(), "");
        ASSERT_EQ(other.join(path, 2).text(), "");
        DesksTest::SetUp();
        gpus.devices.all[1].uuid[0] = 1;
        cards.emplace(book, *rooms, CardsDesk::Terms{.reserve = 0},
                      CardsDesk::Monitor{[](auto) { return nullptr; }, [] {}}, *clients, *limits, gpus);
        cards->begin();
        contexts = make(300);
        lazy = &arrive();
        waiter = &arrive();
        for (Client* const client : {lazy, waiter}) cards->admit(*client);
        start = Os::now();
        fill();
        place(*lazy).idle_since = start;
        waits_for(GiB / 2);
    }
    // Of the card a quarter is free.
    void waits_for(std::uint64_t bytes) {
        place(*waiter).needs = bytes;
        place(*waiter).wish = 1;
    }
    std::unique_ptr<IdleContexts> make(int seconds) {
        return std::make_unique<IdleContexts>(std::chrono::seconds(seconds), *clients, *cards, *pauses);
    }
    void fill() {
        full.emplace(other, policy, cards::Uuid{}, 0, cards::Claim::Terms{.pinned = true});
        const cards::Measured measured{.size = GiB, .reserve = 0};
        ASSERT_EQ(full->ask(GiB - GiB / 4, measured, start), cards::Claim::Answer::granted);
    }
    static CardPlace& place(Client& client) { return client.worker->sheet().cards[0]; }
    // What its worker says of its last order.
    void answers(Client& client, Paused state, Obstacle obstacle = Obstacle::none) {
        Orders& orders = client.worker->sheet().orders;
        orders.obstacle = static_cast<std::uint32_t>(obstacle);
        publish(orders.is, static_cast<std::uint32_t>(state));
        publish(orders.done, observe(orders.order));
        pauses->look();
    }
    bool is_told_to_go(const Client& client) const {
        return pauses->is_busy(client.slot()) &&
               observe(client.worker->sheet().orders.wanted) == static_cast<std::uint32_t>(Paused::away);
    }
};

TEST_F(IdleContextsTest, LeaveAFullCardAndComeBackWithTheNextCommand) {
    cards->look();
    contexts->look(start + idle + second);
    EXPECT_TRUE(is_told_to_go(*lazy));
    EXPECT_TRUE(pauses->is_parked(lazy->slot()));
    EXPECT_FALSE(pauses->is_parked(waiter->slot())) << "it works";
    answers(*lazy, Paused::away);
    EXPECT_EQ(lazy->channel.status().paused, BARCUDA_PAUSED_NO) << "its program sees nothing of it";
    contexts->look(start + idle + 2 * second);
    EXPECT_FALSE(pauses->returns(lazy->slot()));
    publish(place(*lazy).idle_since, std::uint64_t{0});
    contexts->look(start + idle + 3 * second);
    EXPECT_TRUE(pauses->returns(lazy->slot()));
}
TEST_F(IdleContextsTest, StayWhereTheyAreNotIdleForSoLong) {
    cards->look();
    contexts->look(start + idle - second);
    EXPECT_FALSE(pauses->is_busy(lazy->slot()));
}
TEST_F(IdleContextsTest, StayWhileNoClientWaits) {
    waits_for(GiB / 8);
    cards->look();
    contexts->look(start + idle + second);
    EXPECT_FALSE(pauses->is_busy(lazy->slot()));
}
TEST_F(IdleContextsTest, StayWithoutTheOption) {
    cards->look();
    make(0)->look(start + idle + second);
    EXPECT_FALSE(pauses->is_busy(lazy->slot()));
}
TEST_F(IdleContextsTest, OneThatCouldNotLeaveIsNotAskedAgainAtOnce) {
    cards->look();
    contexts->look(start + idle + second);
    ASSERT_TRUE(is_told_to_go(*lazy));
    answers(*lazy, Paused::running, Obstacle::work);
    EXPECT_FALSE(pauses->is_parked(lazy->slot()));
    contexts->look(start + idle + 3 * second);
    EXPECT_FALSE(pauses->is_busy(lazy->slot()));
    contexts->look(start + 2 * idle + 2 * second);
    EXPECT_TRUE(is_told_to_go(*lazy));
}
TEST_F(IdleContextsTest, OneAtATimeBecauseItGivesMemoryToo) {
    cards->look();
    Client& second_one = arrive();
    cards->admit(second_one);
    place(second_one).idle_since = start + second;
    const Time now = start + idle + 10 * second;
    contexts->look(now);
    EXPECT_TRUE(is_told_to_go(*lazy)) << "it is idle for longest";
    contexts->look(now + second / 2);
    EXPECT_FALSE(pauses->is_busy(second_one.slot()));
    contexts->look(now + second);
    EXPECT_TRUE(is_told_to_go(second_one));
}

}  // namespace
}  // namespace barcuda
