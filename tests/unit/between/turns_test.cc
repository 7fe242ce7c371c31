// SPDX-License-Identifier: Apache-2.0
// turns_test: which worker has the turn at a GPU. The test controls the time.
#include "host-bridge/between/turns.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>

#include "tests/unit/support/scratch.h"

namespace barcuda::turns {
namespace {

std::uint32_t own_pid() { return static_cast<std::uint32_t>(getpid()); }
std::uint32_t parent_pid() { return static_cast<std::uint32_t>(getppid()); }

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t ms = 1'000'000, begin = 1000 * ms;
constexpr Uuid gpu{1, 2, 3};
const auto self = static_cast<std::uint32_t>(getpid());
constexpr auto low = static_cast<std::uint32_t>(Priority::low), normal = static_cast<std::uint32_t>(Priority::normal),
               high = static_cast<std::uint32_t>(Priority::high);

struct Turns : testing::Test {
    Book& book;
    std::uint64_t now = begin;
    Turns()
        : book(*static_cast<Book*>(
              mmap(nullptr, sizeof(Book), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
        book.groups[0] = {self, 300, normal};
        book.groups[1] = {self, 100, normal};
        book.groups[2] = {self, 100, normal};
    }
    ~Turns() override { munmap(&book, sizeof book); }
    std::unique_ptr<Place> place(std::uint32_t group, std::uint32_t pid = self) {
        return std::make_unique<Place>(book, group, gpu, pid);
    }
    // All of them want the GPU all the time, and keep it for a millisecond. Returns how often each had it.
    std::vector<int> share(std::vector<Place*> all, int turns) {
        std::vector<int> had(all.size());
        for (Place* p : all) p->ask(now);
        for (int i = 0; i < turns; ++i) {
            const auto whose = std::ranges::find_if(all, [](Place* p) { return p->has_turn(); });
            if (whose == all.end()) {
                ADD_FAILURE() << "no client has the turn";
                return had;
            }
            ++had[static_cast<std::size_t>(whose - all.begin())];
            now += ms;
            (*whose)->pass(now, true);
        }
        return had;
    }
};

TEST_F(Turns, AreWhosAsksFirst) {
    const auto a = place(0), b = place(1);
    EXPECT_TRUE(a->ask(now));
    EXPECT_FALSE(a->wanted());
    EXPECT_FALSE(b->ask(now));
    EXPECT_TRUE(a->wanted());
    EXPECT_TRUE(a->contended(now));
    EXPECT_FALSE(a->contended(now + 1000 * ms));
    EXPECT_FALSE(a->pass(now + ms, true)) << "the other has had less";
    EXPECT_TRUE(b->has_turn());
    EXPECT_TRUE(b->ask(now + ms));
}

TEST_F(Turns, AreDividedByWeights) {
    const auto a = place(0), b = place(1);
    const auto had = share({a.get(), b.get()}, 400);
    EXPECT_NEAR(had[0], 300, 2);
}

TEST_F(Turns, AreDividedAmongVmsWhateverTheNumberOfTheirClients) {
    const auto a = place(1), b = place(2), c = place(2), d = place(2);
    const auto had = share({a.get(), b.get(), c.get(), d.get()}, 600);
    EXPECT_NEAR(had[0], 300, 2);
    for (int i : {1, 2, 3}) EXPECT_NEAR(had[static_cast<std::size_t>(i)], 100, 2);
}

TEST_F(Turns, OfWhoHasRestedAreNoMoreThanOfOthers) {
    const auto a = place(1), b = place(2);
    EXPECT_TRUE(a->ask(now));
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(a->pass(now += ms, true));
    const auto had = share({a.get(), b.get()}, 100);
    EXPECT_NEAR(had[1], 50, 2);
}

TEST_F(Turns, ComeNextToWhoWantsLittle) {
    const auto a = place(1), b = place(1), light = place(2);
    a->ask(now);
    b->ask(now);
    for (int i = 0; i < 50; ++i) {
        Place& holder = a->has_turn() ? *a : *b;
        EXPECT_FALSE(light->ask(now));
        now += ms;
        holder.pass(now, true);
        EXPECT_TRUE(light->has_turn()) << i;
        now += ms / 20;
        light->pass(now, false);
        now += ms / 2;
    }
}

TEST_F(Turns, AreThoseOfTheHigherPriorityWhateverTheWeights) {
    book.groups[0].priority = low;
    book.groups[2].priority = high;
    const auto a = place(0), b = place(1), c = place(2);
    const auto had = share({a.get(), b.get(), c.get()}, 800);
    const int least = 800 / static_cast<int>(floor_parts);
    EXPECT_NEAR(had[0], least, 3) << "a lower one goes on";
    EXPECT_NEAR(had[1], least, 3) << "each lower one";
    EXPECT_NEAR(had[2], 800 - 2 * least, 6);
}

TEST_F(Turns, OfOnePriorityAreDividedByWeightsBesideAnother) {
    book.groups[0].priority = book.groups[1].priority = high;
    const auto a = place(0), b = place(1), c = place(2);
    const auto had = share({a.get(), b.get(), c.get()}, 800);
    EXPECT_NEAR(had[0], 3 * had[1], 8);
    EXPECT_NEAR(had[2], 50, 3);
}

TEST_F(Turns, ComeNextToAHigherPriorityThoughItHasHadMore) {
    book.groups[2].priority = high;
    const auto a = place(1), b = place(1), c = place(2);
    EXPECT_TRUE(c->ask(now));
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(c->pass(now += ms, true));
    c->pass(now += ms, false);
    EXPECT_TRUE(a->ask(now));
    EXPECT_FALSE(b->ask(now));
    for (int i = 0; i < 50; ++i) {
        EXPECT_FALSE(c->ask(now));
        Place& holder = a->has_turn() ? *a : *b;
        now += ms;
        holder.pass(now, true);
        EXPECT_TRUE(c->has_turn()) << i;
        now += 2 * ms;
        c->pass(now, false);
    }
}

// What a group spent among others is neither a debt nor a claim.
TEST_F(Turns, OfWhoComesToAnotherPriorityAreAsManyAsOfOthersThere) {
    const test::Scratch scratch;
    Member x, y;
    ASSERT_THAT(x.join(scratch / "turns", {100, Priority::high}, own_pid()).text(), IsEmpty());
    ASSERT_THAT(y.join(scratch / "turns", {100}, parent_pid()).text(), IsEmpty());
    Book& shared = *map(x.fd());
    for (const std::uint64_t spent : {1'000'000 * ms, 0 * ms}) {
        y.change({100});
        {
            const Place a(shared, x.group(), gpu, self), b(shared, y.group(), gpu, self);
            auto &first = const_cast<Place&>(a), &second = const_cast<Place&>(b);
            shared.gpus[0].spent[x.group()] = shared.gpus[0].clock[high] = 5000 * ms;
            shared.gpus[0].spent[y.group()] = shared.gpus[0].clock[normal] = spent;
            EXPECT_TRUE(first.ask(now));
            EXPECT_FALSE(second.ask(now));
            y.change({100, Priority::high});
            EXPECT_NEAR(share({&first, &second}, 100)[0], 50, 2) << spent;
        }
    }
    munmap(&shared, sizeof shared);
}

TEST_F(Turns, AreWaitedForLongerWhereOthersOutrank) {
    const auto a = place(1), b = place(2);
    EXPECT_FALSE(a->outranked());
    book.groups[2].priority = high;
    EXPECT_TRUE(a->outranked());
    EXPECT_FALSE(b->outranked());
    book.groups[2].pid = 0;
    EXPECT_FALSE(a->outranked()) << "that one has gone";
}

TEST_F(Turns, ThatNobodyWantsCostNothing) {
    const auto a = place(1), b = place(2);
    EXPECT_TRUE(a->ask(now));
    now += 10'000 * ms;
    a->renew(now);
    const auto had = share({a.get(), b.get()}, 100);
    EXPECT_NEAR(had[0], 50, 2);
}

TEST_F(Turns, ThatBeginLaterCostNothingUntilThen) {
    const auto a = place(1), b = place(2);
    EXPECT_TRUE(a->ask(now));
    EXPECT_FALSE(b->ask(now));
    a->renew(now + ms);
    EXPECT_FALSE(b->ask(now + ms / 2)) << "it is nobody's that it has not begun yet";
    EXPECT_FALSE(a->pass(now + ms / 2, true)) << "both have had nothing, and the other has waited longer";
    EXPECT_EQ(book.gpus[0].spent[1], book.gpus[0].spent[2]);
}

TEST_F(Turns, OfTheDeadAndOfWhoHasForgottenThemAreOthers) {
    const pid_t child = fork();
    if (child == 0) {
        auto* const seat = new Place(book, 1, gpu, static_cast<std::uint32_t>(getpid()));
        _exit(seat->ask(now) ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    const auto a = place(0), b = place(1);
    EXPECT_TRUE(a->ask(now));
    EXPECT_FALSE(b->ask(now + ms));
    EXPECT_TRUE(b->ask(now + 501 * ms));
    EXPECT_FALSE(a->has_turn());
    EXPECT_FALSE(a->pass(now + 502 * ms, false)) << "nothing to pass";
    EXPECT_TRUE(b->has_turn());
}

TEST_F(Turns, GoOnWithoutWhoWithdrawsOrLeaves) {
    const auto a = place(0);
    auto b = place(1), c = place(1);
    EXPECT_TRUE(a->ask(now));
    b->ask(now);
    c->ask(now);
    b->withdraw();
    a->pass(now + ms, false);
    EXPECT_TRUE(c->has_turn());
    b->ask(now + ms);
    c.reset();
    EXPECT_TRUE(b->has_turn());
}

TEST_F(Turns, AtTwoGpusHaveNothingToDoWithEachOther) {
    const auto a = place(0);
    const Place b(book, 1, Uuid{9}, self);
    EXPECT_TRUE(a->ask(now));
    EXPECT_TRUE(const_cast<Place&>(b).ask(now));
}

TEST_F(Turns, AreTakenByNoMoreThanThereAreSeatsFor) {
    std::vector<std::unique_ptr<Place>> all;
    for (std::size_t i = 0; i < most_seats; ++i) EXPECT_TRUE(*all.emplace_back(place(0)));
    EXPECT_FALSE(*place(0));
    all.pop_back();
    EXPECT_TRUE(*place(0));
}

// Whatever a worker writes there, no worker is misled or waits forever.
TEST_F(Turns, AreAskedForInABookFullOfNonsense) {
    const auto a = place(1), b = place(2);
    std::minstd_rand random(7);
    for (int round = 0; round < 200; ++round) {
        const std::span<unsigned char> bytes(reinterpret_cast<unsigned char*>(&book), sizeof book);
        for (unsigned char& byte : bytes.last(sizeof book - offsetof(Book, groups)))
            byte = static_cast<unsigned char>(random() >> 8);
        book.lock = book.gpus[0].lock = 0;
        const bool had = a->ask(now);
        if (round % 2) b->ask(now += ms);
        if (had) a->pass(now += ms, round % 3 == 0);
        a->withdraw();
    }
    book.gpus[0].lock = self;  // it never releases it
    EXPECT_FALSE(a->has_turn() ? false : a->ask(now));
    book.gpus[0].lock = 0;
}

struct TurnsFile : testing::Test {
    test::Scratch scratch;
    std::string path = scratch / "turns";
};

TEST_F(TurnsFile, IsMadeAndSharedByBridges) {
    Member a, b;
    EXPECT_THAT(a.join(path, {300}, own_pid()).text(), IsEmpty());
    EXPECT_THAT(b.join(path, {100}, parent_pid()).text(), IsEmpty());
    EXPECT_NE(a.group(), b.group());
    Book* const book = map(a.fd());
    ASSERT_TRUE(book);
    EXPECT_EQ(book->groups[a.group()].weight, 300u);
    a.change({700, Priority::high});
    EXPECT_EQ(book->groups[a.group()].weight, 700u);
    EXPECT_EQ(book->groups[a.group()].priority, high);
    auto place = std::make_unique<Place>(*book, a.group(), gpu, self);
    EXPECT_TRUE(place->takes_turns());
    a.change({});
    EXPECT_FALSE(place->takes_turns()) << "a VM without a weight";
    place.reset();
    munmap(book, sizeof *book);
}

TEST_F(TurnsFile, OfEverybodyOrOfAnotherKindIsRefused) {
    ::close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
    chmod(path.c_str(), 0666);
    EXPECT_THAT(Member().join(path, {1}, own_pid()).text(), HasSubstr("every user may write to it"));
    chmod(path.c_str(), 0600);
    EXPECT_EQ(truncate(path.c_str(), sizeof(Book)), 0);
    EXPECT_THAT(Member().join(path, {1}, own_pid()).text(), HasSubstr("not a book of turns"));
    EXPECT_EQ(symlink("turns", (scratch / "link").c_str()), 0);
    EXPECT_THAT(Member().join(scratch / "link", {1}, own_pid()).text(), HasSubstr("symbolic links"));
}

TEST(Trust, IsLostForAWhileWhenAWorkerWaitsInVain) {
    Trust trust;
    EXPECT_EQ(trust.lost_until(), 0u);
    EXPECT_TRUE(trust.lose(Trust::least));
    EXPECT_EQ(trust.lost_until(), 2 * Trust::least);
    EXPECT_FALSE(trust.lose(Trust::least + 1)) << "another worker, which waited with the first one";
    EXPECT_EQ(trust.lost_until(), 2 * Trust::least);
}
TEST(Trust, IsLostForLongerEachTimeUpToABound) {
    Trust trust;
    std::uint64_t now = 1;
    for (std::uint64_t length = Trust::least;; length = std::min(2 * length, Trust::most)) {
        ASSERT_TRUE(trust.lose(now));
        EXPECT_EQ(trust.length(), length);
        if (now > 10 * Trust::most) break;
        now = trust.lost_until() + 1'000'000'000;  // the next worker that has tried
    }
    EXPECT_EQ(trust.length(), Trust::most);
    ASSERT_TRUE(trust.lose(trust.lost_until() + Trust::memory));
    EXPECT_EQ(trust.length(), Trust::least) << "turns had come for long";
}

}  // namespace
}  // namespace barcuda::turns
