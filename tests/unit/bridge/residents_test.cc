// SPDX-License-Identifier: Apache-2.0
// residents_test: what becomes of a worker's request, of an order to give memory, and of what a worker says of its
// memory. The test plays workers, and the driver's account of the card.
#include "host-bridge/bridge/residents.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/os/file.h"
#include "tests/unit/support/scratch.h"

namespace barcuda {
namespace {

using cards::Claim;
using residency::Bytes;
using residency::ms;
using residency::second;
using residency::Time;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

constexpr Bytes MiB = 1 << 20, size = 1024 * MiB, reserve = 24 * MiB;
constexpr cards::Uuid gpu{7};

// A bridge with its part in the book, and the workers of its clients.
struct Side {
    cards::Member book;
    std::optional<Residents> residents;
    std::array<Sheet, 4> sheets{};
    std::map<std::uint32_t, Bytes> rooms;
    std::map<std::uint32_t, bool> returns;
    std::optional<Residents::Facts::Use> use;
    std::vector<KeptResidents> kept{4};
    std::vector<Residents::News> news;

    explicit Side(const std::string& path, std::uint32_t owner) {
        EXPECT_THAT(book.join(path, owner).text(), IsEmpty());
    }
    void begin(const residency::Policy& policy, bool behind_another = false) {
        residents.emplace(
            book, policy, std::vector<Residents::Card>{{gpu, size}}, reserve,
            Residents::Facts{[this](int) { return use; }, [this](std::uint32_t slot) { return rooms[slot]; },
                             [this](std::uint32_t slot) { return returns[slot]; }},
            Part<KeptResidents>{kept, behind_another});
    }
    CardPlace& place(std::uint32_t slot) { return sheets[slot].cards[0]; }
};

struct ResidentsTest : testing::Test {
    test::Scratch scratch;
    residency::Policy policy;
    Time now = 5000 * second;
    Side a{scratch / "cards", 1}, b{scratch / "cards", 2};

    void SetUp() override {
        a.begin(policy);
        b.begin(policy);
    }
    void admit(Side& side, std::uint32_t slot, const Claim::Terms& terms = {}) {
        side.residents->admit(slot, side.sheets[slot], {0}, terms);
    }
    void look(Side& side) { side.news = side.residents->look(now); }
    // ---- what a worker does
    static void wish(Side& side, std::uint32_t slot, Bytes needs, bool returns = false) {
        CardPlace& p = side.place(slot);
        p.needs = needs;
        p.returns = returns;
        ++p.wish;
    }
    static bool granted(Side& side, std::uint32_t slot) { return side.place(slot).granted == side.place(slot).wish; }
    static bool refused(Side& side, std::uint32_t slot) { return side.place(slot).refused == side.place(slot).wish; }
    // It uses its grant.
    static void use(Side& side, std::uint32_t slot) {
        CardPlace& p = side.place(slot);
        ASSERT_TRUE(granted(side, slot));
        ASSERT_GE(p.promised, p.needs);
        p.holds = p.on_card = p.needs;
        p.needs = 0;
    }
    void gets(Side& side, std::uint32_t slot, Bytes needs) {
        wish(side, slot, needs);
        look(side);
        use(side, slot);
        look(side);
    }
    // It moves memory to the store until it holds what it may keep.
    static void obey(Side& side, std::uint32_t slot) {
        CardPlace& p = side.place(slot);
        ASSERT_LT(p.keep, p.holds);
        const Bytes moved = p.holds - p.keep;
        p.out += moved;
        p.moved_out += moved;
        p.leaving_ns += moved;
        p.on_card = p.holds = p.keep;
    }
    // A client that has all of the card but `free`, and is idle for long.
    void fill(Side& side, std::uint32_t slot, Bytes free = 0) {
        gets(side, slot, size - reserve - free);
        side.place(slot).idle_since = now;
        side.rooms[slot] = size;
        now += 10 * second;
        look(side);
    }
    Bytes promised() const { return a.book.promised(gpu); }
};

MATCHER_P2(Is, what, slot, "") { return arg.what == what && arg.slot == std::uint32_t(slot); }

TEST_F(ResidentsTest, GrantAWishAndWakeItsWorker) {
    admit(a, 2);
    wish(a, 2, 100 * MiB);
    look(a);
    EXPECT_TRUE(granted(a, 2));
    EXPECT_EQ(a.place(2).promised, 100 * MiB);
    EXPECT_THAT(a.news, Contains(Is(Residents::News::wake, 2)));
    EXPECT_EQ(promised(), 100 * MiB);
}

TEST_F(ResidentsTest, TakeNothingFromAWorkerThatHasNotUsedItsGrant) {
    admit(a, 0);
    wish(a, 0, 100 * MiB);
    look(a);
    for (int i = 0; i < 3; ++i, now += second) look(a);
    EXPECT_EQ(a.place(0).promised, 100 * MiB);
    use(a, 0);
    a.place(0).holds = 60 * MiB;  // and frees some
    look(a);
    EXPECT_EQ(a.place(0).promised, 60 * MiB);
    EXPECT_EQ(promised(), 60 * MiB);
}

// The rows of the book are few, and each guest has a part of them.
TEST_F(ResidentsTest, TakeARowForAClientThatHasSomethingOrWaits) {
    const auto rows = [this] {
        return std::ranges::count_if(a.book.book()->cards[0].rows,
                                     [](const cards::Row& row) { return row.member != 0; });
    };
    admit(a, 0);
    look(a);
    EXPECT_EQ(rows(), 0);
    gets(a, 0, 100 * MiB);
    EXPECT_EQ(rows(), 1);
    a.place(0).holds = 0;
    a.place(0).pressed = 1;
    look(a);
    look(a);
    EXPECT_EQ(rows(), 0);
    EXPECT_EQ(a.place(0).pressed, 0u);
    EXPECT_EQ(a.place(0).keep, CardPlace::unlimited);
    gets(a, 0, 100 * MiB);
    EXPECT_EQ(promised(), 100 * MiB);
    EXPECT_EQ(rows(), 1);
}

TEST_F(ResidentsTest, SayOnceThatAGuestHasUsedUpItsRows) {
    std::vector<std::unique_ptr<Claim>> others;
    for (std::uint32_t slot = 10;; ++slot) {
        others.push_back(std::make_unique<Claim>(a.book, policy, gpu, slot, Claim::Terms{}));
        if (!*others.back()) break;
    }
    admit(a, 0);
    admit(b, 0);
    wish(a, 0, 100 * MiB);
    look(a);
    EXPECT_THAT(a.news, Contains(Is(Residents::News::lacks_row, 0)));
    EXPECT_FALSE(granted(a, 0));
    gets(b, 0, 100 * MiB);  // another guest does not pay
    now += second;
    look(a);
    EXPECT_THAT(a.news, IsEmpty()) << "once";
    now += policy.rules().wait;
    look(a);
    EXPECT_TRUE(refused(a, 0));
    others.clear();
    gets(a, 0, 100 * MiB);
}

// A bridge that hangs has the book's lock. This one has other clients to serve: all of its waiters together wait
// for the lock once.
TEST_F(ResidentsTest, WaitOnceForALockThatIsKept) {
    const File stopped(open((scratch / "cards").c_str(), O_RDWR | O_CLOEXEC));
    for (std::uint32_t slot = 0; slot < 4; ++slot) admit(a, slot);
    for (unsigned times = 1; times <= 2; ++times) {
        ASSERT_EQ(os::lock_byte(stopped.fd(), 0, os::Lock::exclusive, os::Holder::open_file), 0);
        for (std::uint32_t slot = 0; slot < 4; ++slot) wish(a, slot, times * 10 * MiB);
        for (int round = 0; round < 3; ++round, now += second) look(a);
        EXPECT_EQ(a.book.vain_waits(), times);
        EXPECT_TRUE(a.book.is_locked_out());
        ASSERT_EQ(os::lock_byte(stopped.fd(), 0, os::Lock::none, os::Holder::open_file), 0);
        look(a);
        EXPECT_FALSE(a.book.is_locked_out());
        for (std::uint32_t slot = 0; slot < 4; ++slot) use(a, slot);
        look(a);
    }
}

TEST_F(ResidentsTest, GiveWhatAPausedClientHadToOthersAndClaimItForItsReturn) {
    admit(a, 0);
    admit(b, 1);
    gets(a, 0, 600 * MiB);
    const auto claim = [&] { return a.residents->claim(0, 0, 600 * MiB, now, false); };
    a.place(0).holds = 0;  // it is away; `on_card` stays
    look(a);
    EXPECT_EQ(promised(), 0u);
    gets(b, 1, 900 * MiB);
    b.rooms[1] = size;
    b.place(1).idle_since = now;
    look(b);
    now += second;
    a.returns[0] = true;
    EXPECT_EQ(claim(), Claim::Answer::waits);
    look(a);
    look(b);
    obey(b, 1);
    look(b);
    EXPECT_EQ(claim(), Claim::Answer::waits) << "it is not asked in each turn of a loop";
    now += second;
    EXPECT_EQ(claim(), Claim::Answer::granted);
    EXPECT_EQ(claim(), Claim::Answer::granted);
    EXPECT_EQ(a.place(0).promised, 600 * MiB);
    look(a);
    EXPECT_EQ(a.place(0).promised, 600 * MiB) << "its worker does not hold it yet";
    a.place(0).holds = 500 * MiB;
    a.returns[0] = false;
    look(a);
    EXPECT_EQ(a.place(0).promised, 500 * MiB) << "the rest was for its context";
}

TEST_F(ResidentsTest, GiveUpWhatWasClaimedForAClientThatDoesNotReturn) {
    admit(a, 0);
    admit(b, 1);
    for (const bool is_free : {true, false}) {
        if (!is_free) gets(b, 1, 900 * MiB);
        a.returns[0] = true;
        EXPECT_EQ(a.residents->claim(0, 0, 600 * MiB, now, false),
                  is_free ? Claim::Answer::granted : Claim::Answer::waits);
        look(a);
        now += second;
        a.returns[0] = false;
        look(a);
        EXPECT_EQ(promised(), is_free ? 0 : 900 * MiB);
        EXPECT_FALSE(
            std::ranges::any_of(a.book.book()->cards[0].rows, [](const cards::Row& row) { return row.wanted != 0; }));
    }
    EXPECT_EQ(a.residents->claim(3, 0, size, now, false), Claim::Answer::granted) << "a client that shares no card";
}

TEST_F(ResidentsTest, NameTheLongestIdleClientWhereAnotherOneWaits) {
    const Time idle = 300 * second;
    bool may = true;
    const auto named = [&] { return a.residents->idle_at_a_full_card(now, idle, [&](std::uint32_t) { return may; }); };
    for (std::uint32_t slot = 0; slot < 3; ++slot) admit(a, slot);
    admit(b, 0, {.pinned = true});
    fill(b, 0);
    EXPECT_TRUE(a.residents->works(1));
    a.place(1).idle_since = now;
    a.place(2).idle_since = now - second;
    now += idle;
    EXPECT_FALSE(a.residents->works(1));
    look(a);
    EXPECT_EQ(named(), std::nullopt) << "no client waits";
    wish(a, 0, 100 * MiB);
    look(a);
    now += second;
    EXPECT_EQ(named(), std::nullopt) << "others may still give";
    now += second;
    EXPECT_EQ(named(), 2u);
    may = false;
    EXPECT_EQ(named(), std::nullopt);
    may = true;
    a.place(2).idle_since = 0;
    EXPECT_EQ(named(), 1u);
    a.place(1).idle_since = now - idle + 1;
    EXPECT_EQ(named(), std::nullopt);
}

TEST_F(ResidentsTest, AnswerAWishOnce) {
    admit(a, 0);
    wish(a, 0, 10 * MiB);
    look(a);
    look(a);
    use(a, 0);
    look(a);
    EXPECT_EQ(promised(), 10 * MiB);
    EXPECT_FALSE(a.residents->any_waits());
}

TEST_F(ResidentsTest, GiveWhatAnotherBridgeLacks) {
    admit(a, 0);
    admit(b, 1);
    fill(a, 0);
    wish(b, 1, 300 * MiB);
    look(b);
    EXPECT_FALSE(granted(b, 1));
    EXPECT_TRUE(a.residents->is_due(now)) << "it was called";
    look(a);
    EXPECT_THAT(a.news, Contains(Is(Residents::News::wake, 0)));
    EXPECT_EQ(a.place(0).keep, size - reserve - 320 * MiB) << "in whole pieces";
    EXPECT_EQ(a.place(0).pressed, 1u);
    obey(a, 0);
    look(a);
    EXPECT_EQ(a.place(0).keep, CardPlace::unlimited);
    EXPECT_EQ(a.place(0).promised, a.place(0).holds);
    EXPECT_TRUE(b.residents->is_due(now)) << "it was called";
    look(b);
    EXPECT_TRUE(granted(b, 1));
    EXPECT_EQ(b.place(1).promised, 300 * MiB);
    EXPECT_EQ(a.residents->totals(0).out, 320 * MiB);
    EXPECT_EQ(a.residents->totals(0).moved_out, 320 * MiB);
    EXPECT_EQ(b.residents->totals(1).waits, 1u);
}

TEST_F(ResidentsTest, RingAgainWhileAnOrderIsNotObeyed) {
    admit(a, 0);
    admit(b, 1);
    fill(a, 0);
    wish(b, 1, 300 * MiB);
    look(b);
    look(a);
    look(a);
    EXPECT_THAT(a.news, Not(Contains(Is(Residents::News::wake, 0))));
    now += 100 * ms;
    look(a);
    EXPECT_THAT(a.news, Contains(Is(Residents::News::wake, 0)));
}

TEST_F(ResidentsTest, OrderNoMoreThanMayLeave) {
    admit(a, 0);
    admit(b, 1);
    fill(a, 0);
    a.place(0).fixed = size - reserve - 100 * MiB;
    wish(b, 1, 300 * MiB);
    look(b);
    look(a);
    EXPECT_EQ(a.place(0).keep, a.place(0).fixed);
}

TEST_F(ResidentsTest, RefuseWhenTheTimeIsOver) {
    admit(a, 0, {.pinned = true});
    admit(b, 1);
    fill(a, 0);
    wish(b, 1, 300 * MiB);
    look(b);
    now += policy.rules().wait - 1;
    look(b);
    EXPECT_FALSE(refused(b, 1));
    now += 1;
    look(b);
    EXPECT_TRUE(refused(b, 1));
    EXPECT_THAT(b.news, Contains(Is(Residents::News::refused, 1)));
    EXPECT_THAT(b.news, Contains(Is(Residents::News::wake, 1)));
    EXPECT_EQ(b.residents->totals(1).refusals, 1u);
}

TEST_F(ResidentsTest, RefuseNoClientWhatItHad) {
    admit(a, 0, {.pinned = true});
    admit(b, 1);
    fill(a, 0);
    b.rooms[1] = b.place(1).out = 300 * MiB;
    wish(b, 1, 320 * MiB, true);  // in whole pieces
    look(b);
    now += 10 * policy.rules().wait;
    look(b);
    EXPECT_FALSE(refused(b, 1));
    a.place(0).holds = 0;
    look(a);
    look(b);
    EXPECT_TRUE(granted(b, 1));
}

TEST_F(ResidentsTest, BelieveNoWorkerThatSaysItHadMoreThanItHasRoomFor) {
    admit(a, 0, {.pinned = true});
    admit(b, 1);
    fill(a, 0);
    b.place(1).out = 300 * MiB;
    b.rooms[1] = 200 * MiB;
    wish(b, 1, 300 * MiB, true);
    look(b);
    now += policy.rules().wait;
    look(b);
    EXPECT_TRUE(refused(b, 1));
}

TEST_F(ResidentsTest, ForgetAWishThatIsWithdrawn) {
    admit(a, 0);
    admit(b, 1);
    fill(a, 0);
    wish(b, 1, 300 * MiB);
    look(b);
    look(a);
    ASSERT_NE(a.place(0).keep, CardPlace::unlimited);
    b.place(1).needs = 0;
    look(b);
    EXPECT_FALSE(b.residents->any_waits());
    look(a);
    EXPECT_EQ(a.place(0).keep, CardPlace::unlimited);
}

TEST_F(ResidentsTest, PromiseNothingForWhatAWorkerSaysItHolds) {
    admit(a, 0);
    a.place(0).holds = a.place(0).on_card = 500 * MiB;
    a.place(0).out = 500 * MiB;
    a.place(0).idle_since = ~Time{0};
    a.place(0).moved_out = ~Bytes{0};
    a.place(0).leaving_ns = 1;
    look(a);
    EXPECT_EQ(promised(), 0u);
    EXPECT_EQ(a.residents->totals(0).out, 0u);
    admit(b, 1);
    wish(b, 1, size - reserve);
    look(b);
    EXPECT_TRUE(granted(b, 1));
}

TEST_F(ResidentsTest, MeasureTheLastMovesAndNotTheFirstOnes) {
    admit(a, 0);
    const auto moves = [&](Bytes bytes, Time took) {
        a.place(0).moved_out += bytes;
        a.place(0).leaving_ns += took;
        look(a);
        return a.residents->totals(0).speed;
    };
    EXPECT_EQ(moves(0, 0), 0u);
    EXPECT_EQ(moves(1000 * MiB, second), 1000 * MiB);         // it waits for the host's memory
    EXPECT_EQ(moves(1000 * MiB, second / 50), 50'000 * MiB);  // and has it
    EXPECT_EQ(moves(100 * MiB, second), 50'000 * MiB);        // too little
    EXPECT_EQ(moves(924 * MiB, second), 512 * MiB);           // both together
    EXPECT_EQ(moves(1000 * MiB, 1), 500'000'000'000u);
}

TEST_F(ResidentsTest, RefuseAtOnceWhatNoCardHas) {
    admit(a, 0);
    for (const Bytes needs : {size, ~Bytes{0}}) {
        wish(a, 0, needs);
        look(a);
        EXPECT_TRUE(refused(a, 0));
    }
}

TEST_F(ResidentsTest, CountWhatStrangersUse) {
    admit(a, 0);
    admit(b, 1);
    gets(a, 0, 400 * MiB);
    now += 10 * second;
    a.use = b.use = {{600 * MiB, now}};
    look(a);
    look(b);
    EXPECT_EQ(a.place(0).may_have, size - reserve - 200 * MiB);
    wish(b, 1, 401 * MiB);
    look(b);
    EXPECT_FALSE(granted(b, 1));
    wish(b, 1, 400 * MiB);
    look(b);
    EXPECT_TRUE(granted(b, 1));
}

TEST_F(ResidentsTest, TakeNoMemoryForAStrangersThatHasJustBeenGivenUp) {
    admit(a, 0);
    gets(a, 0, 400 * MiB);
    now += 10 * second;
    a.use = {{400 * MiB, now}};
    look(a);
    a.place(0).holds = 0;
    now += 50 * ms;
    look(a);
    a.use = {{400 * MiB, now - 40 * ms}};  // what the driver said before the memory was free
    look(a);
    wish(a, 0, size - reserve);
    look(a);
    EXPECT_TRUE(granted(a, 0));
}

TEST_F(ResidentsTest, ForgetNoStrangerWhileMemoryMoves) {
    admit(a, 0);
    gets(a, 0, 128 * MiB);
    now += 10 * second;
    a.use = {{(128 + 350) * MiB, now}};
    look(a);
    ASSERT_EQ(a.residents->may_have(0), size - reserve - 350 * MiB);
    a.place(0).holds = 0;
    now += 50 * ms;
    look(a);
    a.use = {{350 * MiB, now}};
    look(a);
    EXPECT_EQ(a.residents->may_have(0), size - reserve - 350 * MiB);
    now += 10 * second;
    a.use = {{0, now}};
    look(a);
    EXPECT_EQ(a.residents->may_have(0), size - reserve) << "it has gone";
}

TEST_F(ResidentsTest, GiveOthersWhatAClientHadThatHasGone) {
    admit(a, 0);
    admit(b, 1);
    fill(a, 0);
    wish(b, 1, 300 * MiB);
    look(b);
    a.residents->forget(0);
    EXPECT_FALSE(a.kept[0][0].get().known);
    look(b);
    EXPECT_TRUE(granted(b, 1));
}

TEST_F(ResidentsTest, GoOnBehindABridgeThatWasKilled) {
    admit(a, 0);
    gets(a, 0, 500 * MiB);
    wish(a, 0, 600 * MiB);
    look(a);
    ASSERT_TRUE(granted(a, 0));
    a.place(0).granted = a.place(0).promised = 0;  // it was killed before it told its worker
    const std::vector<KeptResidents>& before = a.kept;
    ASSERT_EQ(before[0][0].get().promised, 600 * MiB);
    Side c{scratch / "cards", 3};
    for (std::size_t i = 0; i < Sheet::most_cards; ++i) c.kept[0][i].set(a.kept[0][i].get());
    c.begin(policy, true);
    a.residents->forget(0);
    c.residents->restore(0, a.sheets[0], {0}, {});
    EXPECT_EQ(promised(), 600 * MiB);
    EXPECT_TRUE(granted(a, 0));
    EXPECT_EQ(a.place(0).promised, 600 * MiB);
    look(c);
    EXPECT_EQ(promised(), 600 * MiB) << "once";
}

// Behind a bridge that was killed, while another process has the book's lock: no row is dropped before all clients that
// live have theirs again.
TEST_F(ResidentsTest, ClaimRowsAgainWhenALockedBookIsFree) {
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
        admit(a, slot);
        gets(a, slot, 200 * MiB);
    }
    File file(fcntl(a.book.fd(), F_DUPFD_CLOEXEC, 0));
    Side c{scratch / "cards", 3};
    cards::Member next;
    ASSERT_THAT(next.adopt(std::move(file), a.book.number()).text(), IsEmpty());
    Residents residents(next, policy, {{gpu, size}}, reserve,
                        {[](int) { return std::nullopt; }, [](std::uint32_t) { return Bytes{0}; }}, {c.kept, true});
    const File stopped(open((scratch / "cards").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(os::lock_byte(stopped.fd(), 0, os::Lock::exclusive, os::Holder::open_file), 0);
    const auto restore = [&](std::uint32_t slot) {
        c.kept[slot][0].set(a.kept[slot][0].get());
        residents.restore(slot, a.sheets[slot], {0}, {});
    };
    restore(0);
    residents.all_are_back();  // the client of slot 2 has gone meanwhile
    residents.look(now);
    ASSERT_EQ(os::lock_byte(stopped.fd(), 0, os::Lock::none, os::Holder::open_file), 0);
    restore(1);  // the first one that gets its row
    EXPECT_EQ(promised(), 600 * MiB) << "that of slot 0 is not claimed yet, and stays";
    now += second;
    residents.look(now);
    EXPECT_EQ(promised(), 400 * MiB) << "those of living clients stay";
    EXPECT_EQ(a.place(0).promised, 200 * MiB);
}

// Workers that do what they are told, of two bridges, and one that writes anything: no honest worker's memory is more
// than it is promised, no promise more than the card has, and each honest request is granted in the end.
TEST_F(ResidentsTest, ServeHonestWorkersBesideOneThatLies) {
    std::minstd_rand random(5);
    const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
    for (Side* side : {&a, &b})
        for (std::uint32_t slot = 0; slot < 3; ++slot) {
            admit(*side, slot);
            side->rooms[slot] = size;
        }
    unsigned served = 0;
    for (int step = 0; step < 20'000; ++step) {
        now += below(50) * ms;
        Side& side = below(2) ? a : b;
        const auto slot = static_cast<std::uint32_t>(below(3));
        CardPlace& p = side.place(slot);
        if (&side == &b && slot == 2) {  // the liar
            for (std::uint64_t* word :
                 {&p.holds, &p.on_card, &p.out, &p.needs, &p.idle_since, &p.moved_out, &p.leaving_ns})
                *word = below(2) ? below(2 * size) : below(3) - 1;
            p.wish = static_cast<std::uint32_t>(below(5));
            p.returns = below(2) != 0;
        } else if (p.needs != 0) {
            if (granted(side, slot)) {
                use(side, slot);
                if (p.returns) p.out = 0;
                p.idle_since = now;
                ++served;
            } else if (p.keep < p.holds) {
                obey(side, slot);
                p.needs += 0;  // all that is out is a part of the request already
            }
        } else if (p.keep < p.holds) {
            obey(side, slot);
        } else if (below(4) == 0) {
            p.idle_since = 0;
            if (p.out) wish(side, slot, p.holds + p.out, true);
            else wish(side, slot, std::min(p.holds + (1 + below(8)) * 64 * MiB, 640 * MiB), true);
        } else if (below(4) == 0 && p.out == 0) {
            p.holds = p.on_card = p.holds / 2 / MiB * MiB;
        }
        look(side);
        Bytes sum = 0;
        for (Side* any : {&a, &b})
            for (std::uint32_t i = 0; i < 3; ++i) {
                if (any == &b && i == 2) continue;
                ASSERT_LE(any->place(i).holds, any->place(i).promised) << step;
                sum += any->place(i).holds;
            }
        ASSERT_LE(sum, size - reserve);
        ASSERT_LE(promised(), size - reserve);
    }
    EXPECT_GT(served, 500u);
}

}  // namespace
}  // namespace barcuda
