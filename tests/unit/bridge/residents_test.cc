// SPDX-License-Identifier: Apache-2.0
// residents_test: what becomes of a worker's request, of an order to give memory, and of what a worker says of its
// memory. The test plays workers, and the driver's account of the card.
#include "tests/unit/support/residents.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <vector>

namespace barcuda {
namespace {

using cards::Claim;
using residency::Bytes;
using residency::ms;
using residency::second;
using residency::Time;
using test::gpu;
using test::Is;
using test::MiB;
using test::reserve;
using test::ResidentsTest;
using test::size;
using testing::Contains;
using testing::IsEmpty;
using testing::Not;

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

// A promise that falls makes others' waits shorter: it is written as soon as the lock is free, though nothing else
// changes.
TEST_F(ResidentsTest, WriteWhatMissedTheLockWhenItIsFree) {
    const File stopped(open((scratch / "cards").c_str(), O_RDWR | O_CLOEXEC));
    const auto lock = [&](os::Lock kind) { ASSERT_EQ(os::lock_byte(stopped.fd(), 0, kind, os::Holder::open_file), 0); };
    const auto goes_on = [&] {
        lock(os::Lock::none);
        now += 100 * ms;
        EXPECT_TRUE(a.residents->any());
        EXPECT_TRUE(a.residents->is_due(now));
        look(a);
    };
    const auto& rows = a.book.book()->cards[0].rows;
    const auto has_row = [](const cards::Row& row) { return row.member != 0; };
    admit(a, 0);
    admit(a, 1);
    gets(a, 0, 600 * MiB);
    gets(a, 1, 300 * MiB);
    lock(os::Lock::exclusive);
    a.place(0).holds = 100 * MiB;
    look(a);
    EXPECT_EQ(promised(), 900 * MiB);
    goes_on();
    EXPECT_EQ(promised(), 400 * MiB);

    wish(a, 1, 950 * MiB);  // and a wait that is over
    look(a);
    EXPECT_TRUE(std::ranges::any_of(rows, [](const cards::Row& row) { return row.wanted != 0; }));
    lock(os::Lock::exclusive);
    now += policy.rules().wait;
    look(a);
    EXPECT_TRUE(refused(a, 1));
    goes_on();
    EXPECT_FALSE(std::ranges::any_of(rows, [](const cards::Row& row) { return row.wanted != 0; }));

    lock(os::Lock::exclusive);
    a.residents->forget(0);
    a.residents->forget(1);
    look(a);
    EXPECT_EQ(std::ranges::count_if(rows, has_row), 2);
    goes_on();
    EXPECT_EQ(std::ranges::count_if(rows, has_row), 0) << "of clients that have ended";
    EXPECT_FALSE(a.residents->any());
}

TEST_F(ResidentsTest, GiveWhatAPausedClientHadToOthersAndClaimItForItsReturn) {
    admit(a, 0);
    admit(b, 1);
    gets(a, 0, 600 * MiB);
    const auto claim = [&] { return a.residents->claim(0, 0, 600 * MiB, now); };
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
        EXPECT_EQ(a.residents->claim(0, 0, 600 * MiB, now), is_free ? Claim::Answer::granted : Claim::Answer::waits);
        look(a);
        now += second;
        a.returns[0] = false;
        look(a);
        EXPECT_EQ(promised(), is_free ? 0 : 900 * MiB);
        EXPECT_FALSE(
            std::ranges::any_of(a.book.book()->cards[0].rows, [](const cards::Row& row) { return row.wanted != 0; }));
    }
    EXPECT_EQ(a.residents->claim(3, 0, size, now), Claim::Answer::granted) << "a client that shares no card";
}

// What the driver moved for a client that was paused is more than that client was promised: its context, and its pools.
TEST_F(ResidentsTest, ClaimNoMoreForAReturnThanAnEmptyCardHas) {
    admit(a, 0);
    a.returns[0] = true;
    EXPECT_EQ(a.residents->claim(0, 0, size + 640 * MiB, now), Claim::Answer::granted);
    EXPECT_EQ(a.place(0).promised, size - reserve);
    EXPECT_EQ(a.residents->claim(0, 0, size + 640 * MiB, now), Claim::Answer::granted);
}

TEST_F(ResidentsTest, BringAClientBackThoughAReserveHasGrownMeanwhile) {
    admit(a, 0);
    fill(a, 0);
    a.place(0).keep = 0;
    obey(a, 0);
    look(a);
    Claim other(b.book, policy, gpu, 3, {});
    ASSERT_EQ(other.ask(MiB, {.size = size, .reserve = 300 * MiB}, now), Claim::Answer::granted);
    other.free(MiB, {.size = size, .reserve = 300 * MiB}, now);
    look(a);
    EXPECT_EQ(a.place(0).may_have, size - 300 * MiB) << "the largest one holds";
    wish(a, 0, size - reserve, true);
    look(a);
    EXPECT_TRUE(granted(a, 0));
}

TEST_F(ResidentsTest, SayWhatAClientLacksThatTheCardNeverHas) {
    admit(a, 0);
    a.rooms[0] = a.place(0).out = size + 100 * MiB;
    wish(a, 0, size + 100 * MiB, true);
    look(a);
    EXPECT_FALSE(refused(a, 0));
    EXPECT_EQ(a.residents->totals(0).lacks, size + 100 * MiB);
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

}  // namespace
}  // namespace barcuda
