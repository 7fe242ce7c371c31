// SPDX-License-Identifier: Apache-2.0
// cards_test: the book of the cards, which bridges share. The test controls the time. Each Member here has an open file
// of its own, as bridges have.
#include "host-bridge/between/cards.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <random>

#include "base/os/file.h"
#include "tests/unit/support/killed.h"
#include "tests/unit/support/scratch.h"

namespace barcuda::cards {
namespace {

using residency::ms;
using residency::second;
using testing::HasSubstr;
using testing::IsEmpty;
using Answer = Claim::Answer;

constexpr Bytes GiB = 1ull << 30;
constexpr Uuid gpu{1, 2, 3};
const residency::Policy policy;

struct Cards : testing::Test {
    test::Scratch scratch;
    std::string path = scratch / "cards";
    Time now = 5000 * second;
    Measured card{.size = 80 * GiB, .used = 0, .strangers = 0, .speed = 55'000'000'000, .reserve = 1 * GiB};
    Member a, b;

    void SetUp() override {
        ASSERT_THAT(a.join(path, 1).text(), IsEmpty());
        ASSERT_THAT(b.join(path, 2).text(), IsEmpty());
    }
    static Claim claim(Member& member, std::uint32_t slot = 0, const Claim::Terms& terms = {}) {
        return Claim(member, policy, gpu, slot, terms);
    }
    // All that the book says is promised.
    static Bytes promised(const Member& member) {
        Bytes sum = 0;
        for (const Row& row : member.book()->cards[0].rows)
            if (row.member) sum += row.promised;
        return sum;
    }
};

TEST_F(Cards, PromiseAmongBridgesWhatTheCardHas) {
    Claim x = claim(a), y = claim(b);
    EXPECT_EQ(x.ask(50 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(29 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(1, card, now), Answer::waits);
    EXPECT_EQ(promised(a), 79 * GiB);
    x.free(1 * GiB, card, now);
    EXPECT_EQ(y.ask(1, card, now), Answer::granted);
}

TEST_F(Cards, OrderWhatIsLackingAndCallTheWaiterWhenItIsThere) {
    Claim x = claim(a), y = claim(b);
    ASSERT_EQ(x.ask(50 * GiB, card, now), Answer::granted);
    x.rests(now);
    now += 10 * second;
    const std::uint32_t heard = a.calls();
    EXPECT_EQ(y.ask(50 * GiB, card, now), Answer::waits);
    EXPECT_NE(a.calls(), heard);
    EXPECT_EQ(x.to_give(now), 21 * GiB);
    const std::uint32_t before = b.calls();
    x.moved_out(10 * GiB, card, now);
    EXPECT_EQ(x.to_give(now), 11 * GiB);
    EXPECT_EQ(b.calls(), before);
    x.moved_out(11 * GiB, card, now);
    EXPECT_EQ(x.to_give(now), 0u);
    EXPECT_NE(b.calls(), before);
    EXPECT_EQ(y.ask(50 * GiB, card, now), Answer::granted);
    EXPECT_EQ(x.promised(), 29 * GiB);
    EXPECT_EQ(x.out(), 21 * GiB);
    // And back.
    y.rests(now);
    x.works();
    now += 2 * second;
    EXPECT_EQ(x.ask(x.out(), card, now), Answer::waits);
    EXPECT_EQ(y.to_give(now), 21 * GiB);
    y.moved_out(y.to_give(now), card, now);
    EXPECT_EQ(x.ask(x.out(), card, now), Answer::granted);
    EXPECT_EQ(x.out(), 0u);
    EXPECT_EQ(x.promised(), 50 * GiB);
}

TEST_F(Cards, CallOtherClientsOfTheSameBridge) {
    Claim x = claim(a, 0), y = claim(a, 1);
    ASSERT_EQ(x.ask(79 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(1 * GiB, card, now), Answer::waits);
    const std::uint32_t before = a.calls();
    x.free(2 * GiB, card, now);
    EXPECT_NE(a.calls(), before);
}

TEST_F(Cards, TakeNothingFromThePinned) {
    Claim x = claim(a, 0, {.pinned = true}), y = claim(b);
    ASSERT_EQ(x.ask(79 * GiB, card, now), Answer::granted);
    x.rests(now);
    now += 10 * second;
    EXPECT_EQ(y.ask(1 * GiB, card, now), Answer::waits);
    EXPECT_EQ(x.to_give(now), 0u);
    x.change({.pinned = false});
    EXPECT_EQ(y.ask(1 * GiB, card, now), Answer::waits);
    EXPECT_EQ(x.to_give(now), 1 * GiB);
}

TEST_F(Cards, RefuseAWaiterWhenItsTimeIsOver) {
    Claim x = claim(a, 0, {.pinned = true}), y = claim(b);
    ASSERT_EQ(x.ask(79 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(1 * GiB, card, now), Answer::waits);
    EXPECT_EQ(y.ask(1 * GiB, card, now + policy.rules().wait - 1), Answer::waits);
    EXPECT_EQ(y.ask(1 * GiB, card, now + policy.rules().wait), Answer::refused);
    EXPECT_FALSE(y.waits());
    EXPECT_EQ(y.ask(80 * GiB, card, now), Answer::refused) << "at once: more than the card has";
}

TEST_F(Cards, RefuseNoWaiterWhatItHadBefore) {
    Claim x = claim(a, 0, {.pinned = true}), y = claim(b);
    ASSERT_EQ(x.ask(79 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(1 * GiB, card, now, true), Answer::waits);
    EXPECT_EQ(y.ask(1 * GiB, card, now + 10 * policy.rules().wait, true), Answer::waits);
    EXPECT_TRUE(x.others_wait());
    EXPECT_FALSE(y.others_wait());
    x.free(1 * GiB, card, now + 10 * policy.rules().wait);
    EXPECT_EQ(y.ask(1 * GiB, card, now + 10 * policy.rules().wait, true), Answer::granted);
}

TEST_F(Cards, SayWhatIsPromisedInAll) {
    Claim x = claim(a), y = claim(b);
    ASSERT_EQ(x.ask(3 * GiB, card, now), Answer::granted);
    ASSERT_EQ(y.ask(4 * GiB, card, now), Answer::granted);
    EXPECT_EQ(a.promised(gpu), 7 * GiB);
    EXPECT_EQ(a.promised(Uuid{99}), 0u);
    a.book()->cards[0].rows[1].promised = ~Bytes{0};
    EXPECT_EQ(b.promised(gpu), ~Bytes{0}) << "no sum overflows";
}

TEST_F(Cards, WakeAThreadOfTheirOwn) {
    const std::uint32_t before = a.calls();
    a.call_own();
    EXPECT_NE(a.calls(), before);
}

TEST_F(Cards, CountStrangersAsSizeLess) {
    Claim x = claim(a);
    card.strangers = card.used = 30 * GiB;
    EXPECT_EQ(x.ask(50 * GiB, card, now), Answer::waits);
    EXPECT_EQ(x.ask(49 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, KeepTheLargestReserveOfAllBridges) {
    Claim x = claim(a), y = claim(b);
    card.reserve = 5 * GiB;
    EXPECT_EQ(x.ask(1 * GiB, card, now), Answer::granted);
    card.reserve = 1 * GiB;
    EXPECT_EQ(y.ask(76 * GiB, card, now), Answer::refused);
    EXPECT_EQ(y.ask(74 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, ThatAreTwoHaveNothingToDoWithEachOther) {
    Claim x = claim(a);
    Claim y(b, policy, Uuid{9}, 0, {});
    EXPECT_EQ(x.ask(79 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(79 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, ForgetAClientThatHasLeft) {
    auto x = std::make_unique<Claim>(a, policy, gpu, 0, Claim::Terms{});
    Claim y = claim(b);
    ASSERT_EQ(x->ask(79 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(79 * GiB, card, now), Answer::waits);
    const std::uint32_t before = b.calls();
    x.reset();
    EXPECT_NE(b.calls(), before);
    EXPECT_EQ(y.ask(79 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, WithdrawnHoldUpNoOther) {
    Claim x = claim(a), y = claim(b), z = claim(b, 1);
    ASSERT_EQ(x.ask(70 * GiB, card, now), Answer::granted);
    EXPECT_EQ(y.ask(20 * GiB, card, now), Answer::waits);
    now += 20 * second;
    EXPECT_EQ(z.ask(8 * GiB, card, now), Answer::waits) << "what is free is the earlier waiter's";
    y.withdraw(card, now);
    EXPECT_EQ(z.ask(8 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, AreAFileOfThisUserAlone) {
    const std::string other = scratch / "other";
    ::close(open(other.c_str(), O_CREAT | O_WRONLY, 0600));
    chmod(other.c_str(), 0666);
    EXPECT_THAT(Member().join(other, 1).text(), HasSubstr("every user may write to it"));
    chmod(other.c_str(), 0600);
    EXPECT_EQ(truncate(other.c_str(), sizeof(Book)), 0);
    EXPECT_THAT(Member().join(other, 1).text(), HasSubstr("not a book of cards"));
}

TEST_F(Cards, HaveRoomForSoManyBridgesAndClients) {
    std::vector<std::unique_ptr<Member>> all;
    for (std::size_t i = 2; i < most_members; ++i)
        ASSERT_THAT(all.emplace_back(std::make_unique<Member>())->join(path, 3).text(), IsEmpty());
    EXPECT_THAT(Member().join(path, 3).text(), HasSubstr("64 bridges use it already"));
    all.pop_back();
    EXPECT_THAT(Member().join(path, 3).text(), IsEmpty());
    std::vector<std::unique_ptr<Claim>> claims;
    // One bridge has many clients, another one after the other: each bridge still finds rows, also the last one.
    const auto fill = [&](Member& bridge) {
        for (std::uint32_t slot = 0;; ++slot) {
            claims.push_back(std::make_unique<Claim>(bridge, policy, gpu, slot, Claim::Terms{}));
            if (*claims.back()) continue;
            EXPECT_TRUE(claims.back()->found_it_full());
            claims.pop_back();
            return slot;
        }
    };
    const std::uint32_t first = fill(a);
    EXPECT_GT(first, 60u);
    EXPECT_LT(first, 80u);
    EXPECT_GT(fill(b), first / 3) << "it leaves some to each that comes later";
    for (const auto& bridge : all) EXPECT_GE(fill(*bridge), rows_of_each);
    EXPECT_LE(claims.size(), most_clients);
    claims.erase(claims.begin());
    EXPECT_TRUE(claim(b)) << "what one gives up others may take";
}

// ---- the end of a bridge

// A bridge that is killed before any of its stores leaves nothing: what it was promised is free, its row is free, and
// others are called.
TEST_F(Cards, OfABridgeThatWasKilledAtAnyStoreAreFree) {
    Claim x = claim(a);
    std::uint32_t before = 0;
    const unsigned stores = test::killed_at_each_store(
        [&] {
            x.free(x.promised(), card, now);
            ASSERT_EQ(x.ask(60 * GiB, card, now), Answer::granted);
            x.rests(now - 10 * second);
            before = a.calls();
        },
        [&] {
            Member killed;
            if (killed.join(path, 3)) return;
            auto y = std::make_unique<Claim>(killed, policy, gpu, 0, Claim::Terms{});
            y->ask(10 * GiB, card, now);
            y->ask(30 * GiB, card, now + 2 * second);  // orders 21 GiB
            y->moved_out(5 * GiB, card, now + 2 * second);
            y->withdraw(card, now + 2 * second);
            y.reset();
        },
        [&](bool) {
            Claim z = claim(b);
            EXPECT_EQ(z.ask(79 * GiB - x.promised(), card, now + 3 * second), Answer::granted);
            EXPECT_EQ(promised(b), 79 * GiB) << "two rows";
            z.free(z.promised(), card, now + 3 * second);
            EXPECT_EQ(b.book()->cards[0].stirred, 0u);
            // An order that it gave is lifted.
            EXPECT_EQ(x.to_give(now + 3 * second), 0u);
        });
    EXPECT_GT(stores, 30u);
}

TEST_F(Cards, OfABridgeThatWasKilledBeforeItsCallsAreCalledByTheNext) {
    Claim x = claim(a);
    a.book()->cards[0].stirred = 1;
    const std::uint32_t before = a.calls();
    Claim y = claim(b);
    EXPECT_NE(a.calls(), before);
    EXPECT_EQ(a.book()->cards[0].stirred, 0u);
}

// A bridge that was killed, and whose keeper and workers live on.
TEST_F(Cards, OutliveABridgeWhoseKeeperHasTheOpenFile) {
    File kept;
    {
        Member killed;
        ASSERT_THAT(killed.join(path, 3).text(), IsEmpty());
        kept = File(fcntl(killed.fd(), F_DUPFD_CLOEXEC, 0));
        const std::uint32_t number = killed.number();
        ASSERT_EQ(number, 2u);
        // Rows of two clients as the bridge leaves them.
        const pid_t child = test::fork_child([&] {
            new Claim(killed, policy, gpu, 0, Claim::Terms{}, 30 * GiB);
            new Claim(killed, policy, gpu, 1, Claim::Terms{}, 20 * GiB);
            return 0;
        });
        ASSERT_EQ(test::exit_status(child), 0);
    }
    Claim y = claim(b);
    EXPECT_EQ(y.ask(30 * GiB, card, now), Answer::waits) << "50 GiB are its clients'";
    Member next;
    ASSERT_THAT(next.adopt(std::move(kept), 2, 7).text(), IsEmpty());
    EXPECT_EQ(next.book()->bridges[2].used, 7u) << "the bridge before had said that it leaves";
    Claim again(next, policy, gpu, 0, {}, 30 * GiB);
    EXPECT_EQ(promised(b), 50 * GiB) << "the row is used again";
    next.drop_unclaimed();
    EXPECT_EQ(y.ask(49 * GiB, card, now), Answer::granted);
    EXPECT_EQ(promised(b), 79 * GiB);
}

TEST_F(Cards, OfANumberThatAnotherBridgeHasAreNotAdopted) {
    Member c;
    EXPECT_THAT(c.adopt(File(open(path.c_str(), O_RDWR | O_CLOEXEC)), a.number(), 1).text(),
                HasSubstr("another bridge has the number 0"));
}

// ---- lies

TEST_F(Cards, UnderALockThatIsNeverReleasedPromiseNothing) {
    Claim x = claim(a);
    const File liar(open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(os::lock_byte(liar.fd(), 0, os::Lock::exclusive, os::Holder::open_file), 0);
    EXPECT_EQ(x.ask(1 * GiB, card, now), Answer::waits);
    EXPECT_EQ(x.ask(1 * GiB, card, now + policy.rules().wait), Answer::refused);
    EXPECT_EQ(x.promised(), 0u);
    ASSERT_EQ(os::lock_byte(liar.fd(), 0, os::Lock::none, os::Holder::open_file), 0);
    EXPECT_EQ(x.ask(1 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, AreWrittenAgainWhenAnotherProcessHasChangedThem) {
    Claim x = claim(a), y = claim(b);
    ASSERT_EQ(x.ask(50 * GiB, card, now), Answer::granted);
    a.book()->cards[0].rows[0].promised = 0;
    x.free(0, card, now);
    EXPECT_EQ(promised(a), 50 * GiB);
    a.book()->cards[0].rows[0].member = 0;
    x.free(0, card, now);
    EXPECT_EQ(promised(a), 50 * GiB);
}

TEST_F(Cards, WithRowsThatNoClientHasLoseThem) {
    Claim x = claim(a), y = claim(b);
    Row& lie = a.book()->cards[0].rows[7];
    lie.promised = 79 * GiB;
    for (const std::uint32_t member : {a.number() + 1, b.number() + 1, std::uint32_t{40}, std::uint32_t{4000}}) {
        lie.member = member;
        y.free(0, card, now);
        x.free(0, card, now);
        EXPECT_EQ(lie.member, 0u) << member;
    }
}

TEST_F(Cards, ThatLieAboutPromisesLeaveWhatTheDriverSays) {
    Claim x = claim(a), y = claim(b);
    ASSERT_EQ(x.ask(50 * GiB, card, now), Answer::granted);
    a.book()->cards[0].rows[0].promised = 0;
    card.used = 50 * GiB;
    EXPECT_EQ(y.ask(30 * GiB, card, now), Answer::waits);
    EXPECT_EQ(y.ask(29 * GiB, card, now), Answer::granted);
}

TEST_F(Cards, DoNotMakeAClientGiveBeforeItsShortestStay) {
    Claim x = claim(a);
    ASSERT_EQ(x.ask(50 * GiB, card, now), Answer::granted);
    a.book()->cards[0].rows[0].keep = 0;
    EXPECT_EQ(x.to_give(now + 999 * ms), 0u);
    EXPECT_EQ(x.to_give(now + 1 * second), 50 * GiB);
}

// Whatever is written into the book, bridges take no more than the card has, and come to an end. `used` is what the
// honest ones have, as the driver would say.
TEST_F(Cards, FullOfNonsensePromiseNoMoreThanThereIs) {
    std::minstd_rand random(7);
    const auto below = [&random](std::uint32_t n) { return (random() >> 4) % n; };
    Claim claims[] = {Claim(a, policy, gpu, 0, {}), Claim(a, policy, gpu, 1, {}), Claim(b, policy, gpu, 0, {}),
                      Claim(b, policy, gpu, 1, {})};
    Book& book = *a.book();
    auto* const bytes = reinterpret_cast<unsigned char*>(&book);
    unsigned granted = 0;
    for (int round = 0; round < 4000; ++round) {
        if (round % 4 == 0) {
            const std::size_t from = round % 8 ? offsetof(Book, cards) : offsetof(Book, bridges);
            for (int i = 0; i < 400; ++i)
                bytes[from + below(static_cast<std::uint32_t>(round % 16 ? 2000 : sizeof book - from))] =
                    static_cast<unsigned char>(below(3) ? below(256) : 0);
        }
        now += below(2000) * ms;
        Claim& c = claims[below(4)];
        const auto sum = [&] {
            Bytes all = 0;
            for (const Claim& one : claims) all += one.promised();
            return all;
        };
        card.strangers = below(50) ? 0 : 10 * GiB;
        card.used = sum() + card.strangers;
        switch (below(4)) {
            case 0:
                if (const Bytes give = c.to_give(now)) c.moved_out(give, card, now);
                break;
            case 1: c.free(below(20) * GiB, card, now); break;
            case 2: c.rests(now); break;
            default: {
                const Bytes before = sum();
                if (c.ask((1 + below(30)) * GiB, card, now) == Answer::granted) {
                    ++granted;
                    ASSERT_LE(sum(), card.size - card.reserve - card.strangers) << round << ": from " << before;
                }
            }
        }
    }
    EXPECT_GT(granted, 50u);
}

}  // namespace
}  // namespace barcuda::cards
