// SPDX-License-Identifier: Apache-2.0
// residents_measured_test: what a bridge measures of a card and of its moves, and how clients share it behind a bridge
// that was killed and beside a worker that lies.
#include "tests/unit/support/residents.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace barcuda {
namespace {

using residency::Bytes;
using residency::ms;
using residency::second;
using residency::Time;
using test::gpu;
using test::MiB;
using test::reserve;
using test::ResidentsTest;
using test::Side;
using test::size;
using testing::IsEmpty;

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
    ASSERT_THAT(next.adopt(std::move(file), a.book.number(), 3).text(), IsEmpty());
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
