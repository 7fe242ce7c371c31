// SPDX-License-Identifier: Apache-2.0
// residency_test: which client has its memory on a card, and which gives how much. The test controls the time.
#include "host-bridge/between/residency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/bench/residency_world.h"
#include "tests/unit/support/sanitized.h"

namespace barcuda::residency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr Bytes GiB = 1ull << 30, MiB = 1ull << 20;
constexpr Time now = 5000 * second;
constexpr Card h100{.size = 80 * GiB, .reserve = 768 * MiB, .strangers = 0, .used = 0, .speed = 55'000'000'000};

// A client that has been on the card for long, and works.
Client working(Bytes promised) { return {.promised = promised, .came = now - 100 * second}; }
Client idle(Bytes promised, Time since = now - 10 * second) {
    Client c = working(promised);
    c.idle_since = since;
    return c;
}
Client waiting(Bytes wanted, Time since = now) { return {.wanted = wanted, .waiting_since = since}; }
Client ranked(Client c, std::uint32_t rank) {
    c.rank = rank;
    return c;
}
Client pinned(Client c) {
    c.pinned = true;
    return c;
}
Decision decided(const std::vector<Client>& clients, const Card& card = h100, Time at = now, const Rules& rules = {}) {
    return Policy(rules).decide(clients, card, at);
}

TEST(Residency, GrantsWhatIsFree) {
    const Decision d = decided({working(50 * GiB), waiting(20 * GiB)});
    EXPECT_THAT(d.granted, ElementsAre(1u));
    EXPECT_THAT(d.orders, IsEmpty());
}

TEST(Residency, NeverGrantsTheReserveNorWhatStrangersUse) {
    const Card card{.size = 80 * GiB, .reserve = 1 * GiB, .strangers = 10 * GiB, .used = 10 * GiB};
    EXPECT_THAT(decided({waiting(69 * GiB)}, card).granted, ElementsAre(0u));
    EXPECT_THAT(decided({waiting(69 * GiB + 1)}, card).granted, IsEmpty());
}

// It was promised before, by a smaller reserve.
TEST(Residency, GivesTheReserveToAClientThatCannotReturnWithoutIt) {
    const Card card{.size = 80 * GiB, .reserve = 4 * GiB, .strangers = 1 * GiB, .used = 1 * GiB};
    const auto returning = [](Bytes promised, Bytes wanted) {
        Client c = waiting(wanted);
        c.promised = promised;
        c.patient = true;
        return c;
    };
    EXPECT_THAT(decided({returning(0, 78 * GiB)}, card).granted, ElementsAre(0u));
    EXPECT_THAT(decided({returning(70 * GiB, 8 * GiB)}, card).granted, ElementsAre(0u));
    EXPECT_THAT(decided({idle(20 * GiB), returning(0, 78 * GiB)}, card).orders, ElementsAre(Order{0, 0}));
    EXPECT_THAT(decided({working(70 * GiB), returning(0, 6 * GiB)}, card).granted, IsEmpty()) << "others can give";
    const Decision more = decided({returning(0, 80 * GiB)}, card);
    EXPECT_THAT(more.granted, IsEmpty()) << "strangers have it";
    EXPECT_THAT(more.refused, IsEmpty()) << "they may end";
    EXPECT_THAT(decided({returning(0, 81 * GiB)}, card).refused, ElementsAre(0u));
}

TEST(Residency, GrantsNoMoreThanTheDriverHasThoughTheBookSaysSo) {
    const Card card{.size = 80 * GiB, .reserve = 1 * GiB, .strangers = 0, .used = 60 * GiB};
    EXPECT_THAT(decided({working(0), waiting(20 * GiB)}, card).granted, IsEmpty());
    EXPECT_THAT(decided({working(0), waiting(19 * GiB)}, card).granted, ElementsAre(1u));
}

TEST(Residency, MovesOnlyWhatIsLacking) {
    const Decision d = decided({idle(50 * GiB), waiting(50 * GiB)});
    EXPECT_THAT(d.granted, IsEmpty());
    EXPECT_THAT(d.orders, ElementsAre(Order{0, 29 * GiB + 256 * MiB})) << "79.25 GiB less 50";
}

TEST(Residency, MovesWholePieces) {
    EXPECT_THAT(decided({idle(79 * GiB), waiting(256 * MiB + 1)}).orders, ElementsAre(Order{0, 79 * GiB - 64 * MiB}));
}

TEST(Residency, TakesFromTheLowestRankAndThenFromTheLongestIdle) {
    const std::vector<Client> clients{ranked(idle(20 * GiB, now - 50 * second), 2), idle(20 * GiB, now - 10 * second),
                                      idle(20 * GiB, now - 20 * second), ranked(idle(19 * GiB, now - 5 * second), 0),
                                      waiting(30 * GiB)};
    EXPECT_THAT(decided(clients).orders,
                ElementsAre(Order{3, 0}, Order{2, 20 * GiB - (30 * GiB - 256 * MiB - 19 * GiB)}));
}

TEST(Residency, NeverTakesFromAPinnedClient) {
    const Decision d = decided({pinned(idle(79 * GiB)), waiting(2 * GiB)});
    EXPECT_THAT(d.orders, IsEmpty());
    EXPECT_THAT(d.granted, IsEmpty());
    EXPECT_THAT(d.refused, IsEmpty()) << "it waits until its time is over";
}

TEST(Residency, LeavesAClientThatHasJustComeAlone) {
    Client fresh = idle(79 * GiB, now - 200 * ms);
    fresh.came = now - 400 * ms;
    const Decision d = decided({fresh, waiting(2 * GiB)});
    EXPECT_THAT(d.orders, IsEmpty());
    EXPECT_EQ(d.look, now + 600 * ms);
    EXPECT_THAT(decided({fresh, waiting(2 * GiB)}, h100, now + 600 * ms).orders,
                ElementsAre(Order{0, 77 * GiB + 256 * MiB}));
}

TEST(Residency, TakesAGapBetweenTwoCommandsForWork) {
    Client c = idle(79 * GiB, now - 20 * ms);
    c.came = now - 500 * ms;
    EXPECT_THAT(decided({c, waiting(2 * GiB)}).orders, IsEmpty());
}

TEST(Residency, TakesFromAClientThatWorksWhenItsStayIsOver) {
    Client c = working(79 * GiB);
    c.came = now - 999 * ms;
    EXPECT_THAT(decided({c, waiting(2 * GiB)}).orders, IsEmpty());
    EXPECT_EQ(decided({c, waiting(2 * GiB)}).look, now + 1 * ms);
    c.came = now - 1 * second;
    EXPECT_THAT(decided({c, waiting(2 * GiB)}).orders, ElementsAre(Order{0, 77 * GiB + 256 * MiB}));
}

TEST(Residency, StopsOneClientThatSufficesRatherThanTwo) {
    EXPECT_THAT(decided({working(10 * GiB), working(60 * GiB), waiting(30 * GiB)}).orders,
                ElementsAre(Order{1, 60 * GiB - (30 * GiB - 9 * GiB - 256 * MiB)}));
}

TEST(Residency, StopsNoClientWhileAWaiterHasEnough) {
    Client later = waiting(10 * GiB, now - 1 * second);
    later.promised = 30 * GiB;
    const Client busy = ranked(working(49 * GiB), 2);
    EXPECT_THAT(decided({busy, later, ranked(waiting(10 * GiB, now - 2 * second), 2)}).orders,
                ElementsAre(Order{1, 30 * GiB - (10 * GiB - 256 * MiB)}));
}

TEST(Residency, ServesAClientThatSettlesBeforeOneThatWaitsForLonger) {
    Client grows = working(30 * GiB), other = working(49 * GiB + 256 * MiB);
    grows.wanted = other.wanted = 256 * MiB;
    grows.waiting_since = now;
    other.waiting_since = now - 2 * second;
    grows.came = now - second;
    EXPECT_THAT(decided({grows, other}).orders, ElementsAre(Order{1, 49 * GiB}));
    grows.came = now - 20 * second;  // it has settled
    EXPECT_THAT(decided({grows, other}).orders, ElementsAre(Order{0, 30 * GiB - 256 * MiB}));
}

TEST(Residency, LetsAClientSettleForAsLongAsItsStayMayBe) {
    const Policy policy;
    EXPECT_EQ(second, policy.settling(working(GiB), h100));
    EXPECT_EQ(8 * Policy::time_to_move(40 * GiB, h100), policy.settling(working(40 * GiB), h100));
    EXPECT_EQ(policy.rules().ageing, policy.settling(working(400 * GiB), h100));
    EXPECT_FALSE(policy.settles(Client{.promised = GiB}, h100, 0)) << "it never came";
}

TEST(Residency, OfAHigherRankIsNotStoppedForALowerOneThatHasJustCome) {
    const std::vector<Client> clients{ranked(working(79 * GiB), 2), ranked(waiting(2 * GiB, now - 15 * second), 0)};
    EXPECT_THAT(decided(clients).orders, IsEmpty());
    EXPECT_THAT(decided(clients, h100, now + 5 * second).orders, ElementsAre(Order{0, 77 * GiB + 256 * MiB}))
        << "each waiter's rank rises";
}

TEST(Residency, ServesTheHigherRankFirstUntilTheLowerOneHasWaitedForLong) {
    const auto first_at = [](Time waited) {
        return decided({ranked(waiting(60 * GiB, now - waited), 0), ranked(waiting(60 * GiB), 2)}).granted;
    };
    EXPECT_THAT(first_at(1 * second), ElementsAre(1u));
    EXPECT_THAT(first_at(19 * second), ElementsAre(1u));
    EXPECT_THAT(first_at(20 * second), ElementsAre(0u));
}

TEST(Residency, LetsASmallWaiterPassALargeOneForAWhile) {
    Client stays = working(70 * GiB);
    const auto granted = [&](Time waited) {
        stays.came = now - 500 * ms;
        return decided({stays, waiting(50 * GiB, now - waited), waiting(2 * GiB)}).granted;
    };
    EXPECT_THAT(granted(9 * second), ElementsAre(2u));
    EXPECT_THAT(granted(10 * second), IsEmpty()) << "the large one waits for all that there is";
}

TEST(Residency, RefusesAWaiterWhoseTimeIsOver) {
    Rules rules;
    rules.wait = 5 * second;
    const std::vector<Client> clients{pinned(working(79 * GiB)), waiting(2 * GiB, now - 4 * second)};
    EXPECT_EQ(decided(clients, h100, now, rules).look, now + 1 * second);
    EXPECT_THAT(decided(clients, h100, now + 1 * second, rules).refused, ElementsAre(1u));
}

TEST(Residency, RefusesAtOnceWhatWouldNotFitIntoAnEmptyCard) {
    EXPECT_THAT(decided({waiting(79 * GiB + 256 * MiB)}).granted, ElementsAre(0u));
    EXPECT_THAT(decided({waiting(79 * GiB + 256 * MiB + 1)}).refused, ElementsAre(0u));
}

TEST(Residency, OrdersNothingTwice) {
    Client gives = idle(60 * GiB);
    gives.keep = 30 * GiB;
    gives.told = now - 100 * ms;
    const Decision d = decided({gives, waiting(49 * GiB)});
    EXPECT_THAT(d.orders, IsEmpty());
    EXPECT_THAT(d.granted, IsEmpty());
}

TEST(Residency, OrdersMoreOfAClientThatGivesAlready) {
    Client gives = idle(60 * GiB);
    gives.keep = 50 * GiB;
    gives.told = now - 100 * ms;
    EXPECT_THAT(decided({gives, waiting(49 * GiB)}).orders, ElementsAre(Order{0, 30 * GiB + 256 * MiB}));
}

TEST(Residency, LetsAWaiterKeepWhatNoEarlierOneNeeds) {
    Client waiter = waiting(20 * GiB);
    waiter.promised = 30 * GiB;
    waiter.keep = 10 * GiB;
    waiter.told = now - 100 * ms;
    EXPECT_THAT(decided({working(29 * GiB), waiter}).orders, ElementsAre(Order{1, unlimited}));
    EXPECT_THAT(decided({working(29 * GiB), waiter}).granted, ElementsAre(1u));
    const Decision d = decided({working(49 * GiB), waiter, waiting(20 * GiB, now - second)});
    EXPECT_THAT(d.granted, IsEmpty()) << "it gives first";
}

TEST(Residency, AsksOthersWhenAClientDoesNotObey) {
    Client deaf = idle(40 * GiB, now - 50 * second);
    deaf.keep = 0;
    deaf.told = now - 5 * second;
    EXPECT_THAT(decided({deaf, idle(39 * GiB), waiting(20 * GiB)}).orders, ElementsAre(Order{1, 19 * GiB + 256 * MiB}));
}

TEST(Residency, LiftsAnOrderThatNoWaiterNeedsAnyMore) {
    Client gives = idle(60 * GiB);
    gives.keep = 10 * GiB;
    gives.told = now - 100 * ms;
    EXPECT_THAT(decided({gives}).orders, ElementsAre(Order{0, unlimited}));
}

TEST(Residency, KeepsNothingForAWaiterThatCannotBeServed) {
    Client old = waiting(20 * GiB, now - 20 * second);
    old.promised = 20 * GiB;
    old.patient = true;
    EXPECT_THAT(decided({pinned(working(50 * GiB)), old, waiting(1 * GiB)}).granted, ElementsAre(2u));
    // Where the memory can be given some time, it is kept.
    Client busy = working(50 * GiB);
    busy.came = now;
    EXPECT_THAT(decided({busy, old, waiting(1 * GiB)}).granted, IsEmpty());
}

TEST(Residency, LiftsAnOrderThatWasNotObeyedWhenNoClientWaits) {
    Client disobeys = working(50 * GiB);
    disobeys.keep = 30 * GiB;
    disobeys.told = now - 60 * second;
    EXPECT_THAT(decided({disobeys}).orders, ElementsAre(Order{0, unlimited}));
    EXPECT_THAT(decided({disobeys, waiting(60 * GiB)}).orders, IsEmpty());
}

TEST(Residency, StaysAreLongWhereTwoAlternate) {
    const Policy policy;
    const Bytes need = 20 * GiB + 768 * MiB;
    Client holder = working(50 * GiB), waiter = waiting(need);
    EXPECT_EQ(policy.stay(holder, waiter, need, h100, now), 1 * second);
    waiter.left_before = now - 20 * second;
    const Time lasting = policy.stay(holder, waiter, need, h100, now);
    EXPECT_NEAR(static_cast<double>(lasting), 8.0 * 2 * static_cast<double>(need) / 55, 1e6) << "nanoseconds";
    holder.left_before = now - 20 * second;
    waiter.left_before = 0;
    EXPECT_EQ(policy.stay(holder, waiter, need, h100, now), lasting) << "either of them has left twice";
    holder.left_before = now - 200 * second;
    EXPECT_EQ(policy.stay(holder, waiter, need, h100, now), 1 * second) << "long ago";
}

TEST(Residency, StaysAreBoundedWhateverTheMeasuredSpeed) {
    Card card = h100;
    Client c = working(50 * GiB);
    c.left_before = now - second;
    for (const Bytes speed : {Bytes{0}, Bytes{1}, unlimited}) {
        card.speed = speed;
        const Time stay = Policy().stay(c, waiting(50 * GiB), 50 * GiB, card, now);
        EXPECT_GE(stay, 1 * second);
        EXPECT_LT(stay, 3 * 3600 * second);
    }
}

TEST(Residency, SumsOfNonsenseGrantNothing) {
    std::vector<Client> clients(4, working(unlimited - 1));
    clients.push_back(waiting(1));
    EXPECT_THAT(decided(clients).granted, IsEmpty());
    EXPECT_THAT(decided({waiting(unlimited)}).refused, ElementsAre(0u));
}

// ---- any snapshot

struct Any {
    std::mt19937_64 random;
    explicit Any(std::uint64_t seed) : random(seed) {}
    std::uint64_t below(std::uint64_t n) { return random() % n; }
    Client client() {
        Client c;
        c.promised = below(20) * GiB / 2;
        c.out = below(10) * GiB / 2;
        if (below(3) == 0) c.wanted = 1 + below(40) * GiB / 2;
        c.waiting_since = now - below(70) * second;
        if (below(4) == 0) c.keep = below(20) * GiB / 2;
        c.told = now - below(7) * second;
        if (below(2) == 0) c.idle_since = now - below(3000) * ms;
        c.came = now - below(20) * second / 4;
        c.left = now - below(20) * second;
        c.left_before = below(2) ? c.left - below(20) * second : 0;
        c.rank = static_cast<std::uint32_t>(below(3));
        c.pinned = below(5) == 0;
        return c;
    }
    Card card() {
        Card card = h100;
        card.strangers = below(8) == 0 ? below(90) * GiB : 0;
        card.used = below(4) ? 0 : below(90) * GiB;
        return card;
    }
};

TEST(ResidencyOfAnySnapshot, KeepsItsPromises) {
    const Rules rules;
    for (std::uint64_t seed = 0; seed < 20'000; seed += sanitized_step) {
        SCOPED_TRACE(seed);
        Any any(seed);
        std::vector<Client> clients(1 + any.below(12));
        for (Client& c : clients) c = any.client();
        const Card card = any.card();
        const Decision d = Policy(rules).decide(clients, card, now);
        Bytes granted = 0, wanted = 0;
        for (const std::size_t i : d.granted) {
            ASSERT_GT(clients[i].wanted, 0u);
            granted += clients[i].wanted;
        }
        ASSERT_LE(granted, Policy::free(clients, card)) << "more than there is";
        // What waiters lack, behind the orders.
        for (std::size_t i = 0; i < clients.size(); ++i) {
            const auto order = std::ranges::find(d.orders, i, &Order::client);
            const Bytes keep = order == d.orders.end() ? clients[i].keep : order->keep;
            if (clients[i].wanted)
                wanted += clients[i].wanted + clients[i].promised - std::min(clients[i].promised, keep);
        }
        Bytes ordered = 0;
        for (const auto& [i, keep] : d.orders) {
            const Client& c = clients[i];
            if (keep == unlimited) {
                ASSERT_GT(c.promised, c.keep) << "no order to lift";
                continue;
            }
            ASSERT_FALSE(c.pinned);
            ASSERT_LT(keep, std::min(c.promised, c.keep)) << "less than before";
            ordered += std::min(c.promised, c.keep) - keep;
            const bool works = !c.wanted && !c.idle_since;
            if (works) { ASSERT_GE(now - c.came, rules.least_stay); }
            ASSERT_FALSE(std::ranges::count(d.granted, i)) << "it has just got what it wants";
        }
        ASSERT_LE(granted + ordered, wanted + clients.size() * rules.piece) << "more moves than any client lacks";
        for (const std::size_t i : d.refused)
            ASSERT_TRUE(now - clients[i].waiting_since >= rules.wait ||
                        clients[i].promised + clients[i].wanted > card.size - card.reserve);
        for (std::size_t i = 0; i < clients.size(); ++i)
            if (clients[i].wanted && now - clients[i].waiting_since >= rules.wait) {
                ASSERT_TRUE(std::ranges::count(d.refused, i)) << i << " waits for longer than it may";
            }
        if (std::ranges::any_of(clients, [](const Client& c) { return c.wanted != 0; })) {
            ASSERT_TRUE(d.look != never || d.granted.size() + d.refused.size() > 0) << "no time to look again";
        }
        ASSERT_GT(d.look, now);
    }
}

TEST(ResidencyOfAnySnapshot, MovesTheFewestBytesOfIdleClients) {
    const Rules rules;
    for (std::uint64_t seed = 0; seed < 5'000; seed += sanitized_step) {
        SCOPED_TRACE(seed);
        Any any(seed);
        std::vector<Client> clients;
        Bytes promised = 0;
        while (promised < 70 * GiB) promised += clients.emplace_back(idle((1 + any.below(20)) * GiB / 4)).promised;
        const Bytes wanted = (1 + any.below(60)) * GiB;
        clients.push_back(waiting(wanted));
        Card card = h100;
        card.size += promised > 79 * GiB ? promised - 79 * GiB : 0;
        const Bytes free = Policy::free(clients, card);
        const Decision d = Policy(rules).decide(clients, card, now);
        if (wanted <= free) {
            ASSERT_THAT(d.granted, ElementsAre(clients.size() - 1));
            ASSERT_THAT(d.orders, IsEmpty());
            continue;
        }
        Bytes given = 0;
        for (const auto& [i, keep] : d.orders) given += clients[i].promised - keep;
        ASSERT_GE(given, wanted - free);
        ASSERT_LT(given, wanted - free + rules.piece);
    }
}

// ---- in the course of time (tests/bench/residency_world.h)

Pattern always(Time work) {
    return [work](Time at) { return Burst{at, work}; };
}
Pattern each(Time period, Time work) {
    return [=](Time at) { return Burst{(at / period + 1) * period, work}; };
}
constexpr Time begin = 1000 * second;

TEST(ResidencyInTime, TwoOf50GiBTakeTurns) {
    World world(
        World::Way::residency, h100, {},
        {{.memory = 50 * GiB, .next = always(3600 * second)}, {.memory = 50 * GiB, .next = always(3600 * second)}});
    const Figures& figures = world.run(begin + 600 * second);
    EXPECT_GE(static_cast<double>(figures.worked), 0.85 * 600 * second) << "beside one after the other";
    EXPECT_NEAR(static_cast<double>(world.worked(0)), static_cast<double>(world.worked(1)), 0.1 * 600 * second);
    EXPECT_LE(figures.moved / std::max<std::uint64_t>(figures.changes, 1), 2 * (21 * GiB))
        << "only what the other lacks";
}

TEST(ResidencyInTime, TwoTakeTurnsOverASlowLink) {
    Card slow = h100;
    slow.speed = 8'000'000'000;  // a stay of 45 s
    World world(
        World::Way::residency, slow, {},
        {{.memory = 50 * GiB, .next = always(7200 * second)}, {.memory = 50 * GiB, .next = always(7200 * second)}},
        50 * ms);
    EXPECT_GE(static_cast<double>(world.run(begin + 3600 * second).worked), 0.85 * 3600 * second);
}

TEST(ResidencyInTime, ANotebookAnswersBesideATraining) {
    World world(
        World::Way::residency, h100, {},
        {{.memory = 70 * GiB, .next = always(3600 * second)}, {.memory = 20 * GiB, .next = each(30 * second, second)}});
    const Figures& figures = world.run(begin + 600 * second);
    EXPECT_GE(world.done(1), 18u);
    EXPECT_LE(world.slowest(1), 2 * second);
    EXPECT_GE(static_cast<double>(figures.worked), 0.85 * 600 * second);
}

TEST(ResidencyInTime, ThreeThatFitNowhereTogetherAllGoOn) {
    std::vector<Guest> guests(3, {.memory = 50 * GiB, .next = always(5 * second)});
    World world(World::Way::residency, h100, {}, guests, 50 * ms);
    const Figures& figures = world.run(begin + 600 * second);
    EXPECT_EQ(figures.refused, 0u);
    for (std::size_t i : {0u, 1u, 2u}) EXPECT_GE(static_cast<double>(world.worked(i)), 0.2 * 600 * second) << i;
}

TEST(ResidencyInTime, ALowRankGoesOnBesideAHighOne) {
    World world(World::Way::residency, h100, {},
                {{.memory = 50 * GiB, .next = always(3600 * second), .rank = 2},
                 {.memory = 50 * GiB, .next = always(3600 * second), .rank = 0}},
                50 * ms);
    world.run(begin + 600 * second);
    EXPECT_GE(world.worked(1), 30 * second);
    EXPECT_GE(world.worked(0), world.worked(1));
}

TEST(ResidencyInTime, NoClientIsForgottenAndNothingPromisedTwice) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto below = [&random](std::uint64_t n) { return random() % n; };
        std::vector<Guest> guests(2 + below(10));
        for (Guest& g : guests) {
            g.memory = (1 + below(50)) * GiB;
            g.rank = static_cast<std::uint32_t>(below(3));
            const std::uint64_t own = random();
            const Time pause = below(2) ? 0 : (1 + below(20)) * second;
            g.next = [source = std::mt19937_64(own), pause](Time at) mutable -> std::optional<Burst> {
                return Burst{at + (pause ? source() % pause : 0), (1 + source() % 4000) * ms};
            };
        }
        Bytes fast = 0;
        for (Guest& g : guests)
            if (below(6) == 0 && fast + g.memory < 20 * GiB) {
                g.pinned = true;
                fast += g.memory;
            }
        const Rules rules;
        World world(World::Way::residency, h100, rules, guests, 20 * ms);
        std::vector<Client> before = world.clients();
        while (world.now() < begin + 120 * second) {
            if (below(1000) == 0) world.card().strangers = below(3) * 4 * GiB;
            const Bytes strangers = world.card().strangers;
            world.step();
            Bytes promised = 0;
            const std::vector<Client> after = world.clients();
            Bytes sum_before = 0;
            for (std::size_t i = 0; i < after.size(); ++i) {
                promised += after[i].promised;
                sum_before += before[i].promised;
                if (after[i].pinned) { ASSERT_EQ(after[i].out, 0u); }
            }
            // A stranger may come when all is promised. Then nothing is added.
            ASSERT_LE(promised, std::max(sum_before, h100.size - h100.reserve - strangers));
            before = after;
        }
        for (std::size_t i = 0; i < guests.size(); ++i) {
            EXPECT_LE(world.longest(i), rules.wait) << i;
            EXPECT_GT(world.worked(i) + world.refused(i), 0u) << i;
        }
    }
}

TEST(ResidencyInTime, EachWaiterIsServedWithinTheStaysOfOthers) {
    constexpr std::size_t n = 8;
    std::vector<Guest> guests(n, {.memory = 40 * GiB, .next = always(second)});
    Rules rules;
    rules.wait = 3600 * second;
    World world(World::Way::residency, h100, rules, guests, 50 * ms);
    world.run(begin + 600 * second);
    // A stay, and its moves, of each of the others; one has its memory beside another.
    const Time stay = 8 * 2 * (40 * GiB) / 55 * second / 1'000'000'000;
    for (std::size_t i = 0; i < n; ++i) {
        EXPECT_GT(world.done(i), 0u) << i;
        EXPECT_LE(world.longest(i), (n - 1) * (stay + 2 * second)) << i;
    }
}

}  // namespace
}  // namespace barcuda::residency
