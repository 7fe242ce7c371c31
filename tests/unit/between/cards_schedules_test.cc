// SPDX-License-Identifier: Apache-2.0
// cards_schedules_test: three bridges at one book, in all orders in which they may go on (tests/unit/support/model.h).
// They use the real book, its real locks, and no other memory. In each order no more is promised than the card has, and
// no bridge sleeps forever: also when one of them is killed before any of its stores, or at its locks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>

#include "base/os/file.h"
#include "host-bridge/between/cards.h"
#include "shm-device/queue/sync.h"
#include "tests/unit/support/model.h"
#include "tests/unit/support/sanitized.h"
#include "tests/unit/support/scratch.h"

namespace barcuda::cards {
namespace {

constexpr Bytes GiB = 1ull << 30;
constexpr Uuid gpu{1};
constexpr Time now = residency::second;

// The time stays the same, and stays are over as soon as they begin: all that is left is who goes on.
residency::Rules timeless() {
    residency::Rules rules;
    rules.least_stay = 0;
    rules.alternating = 0;
    rules.times = 0;
    rules.idle = 0;
    return rules;
}
const residency::Policy policy(timeless());

struct Killed {};

class Scenario : public Stage {
  public:
    struct Kill {
        int bridge = -1;
        unsigned step = 0;  // of its locks, sleeps and stores
    };
    Scenario(model::World& world, std::array<Member, 3>& members, bool at_stores, Kill kill, unsigned* deaths)
        : world_(world), at_stores_(at_stores), kill_(kill), deaths_(deaths), place_(world.new_location(0)) {
        current_ = this;
        Book& book = *members[0].book();  // as at first
        std::memset(static_cast<void*>(book.cards), 0, sizeof(Card));
        for (std::size_t i = 0; i < 3; ++i) {
            One& one = all_[i];
            one.member = &members[i];
            book.bridges[i].used = static_cast<std::uint32_t>(i + 1);
            os::lock_byte(members[i].fd(), 0, os::Lock::none, os::Holder::open_file);
            os::lock_byte(members[i].fd(), 1 + members[i].number(), os::Lock::exclusive, os::Holder::open_file);
            one.claim.emplace(members[i], policy, gpu, 0, Claim::Terms{});
        }
        stage = this;
        records::before_store = [] { current_->store(); };
    }
    ~Scenario() override {
        stage = nullptr;
        records::before_store = nullptr;
    }

    // Gets memory, works, is idle until others have what they need, gives what it is told to, and ends. Its step is
    // one of those that are counted.
    void bridge(int me, Bytes needs, int rounds) {
        running_ = me;
        try {
            live(me, needs, rounds);
        } catch (const Killed&) {
            // ASan knows nothing of fibers, and leaves what was unwound as it was.
            constexpr std::size_t below = 64 << 10;
            ASAN_UNPOISON_MEMORY_REGION(static_cast<char*>(__builtin_frame_address(0)) - below, below);
            died(me);
        }
        running_ = me;
        all_[static_cast<std::size_t>(me)].ended = true;
    }

  private:
    struct One {
        Member* member = nullptr;
        std::optional<Claim> claim;
        bool ended = false, dead = false;
    };

    void live(int me, Bytes needs, int rounds) {
        One& one = all_[static_cast<std::size_t>(me)];
        Claim& claim = *one.claim;
        for (int round = 0; round < rounds; ++round) {
            for (;;) {
                const std::uint32_t calls = one.member->calls();
                obey(claim);
                const Bytes lacks = needs - claim.promised();
                if (lacks == 0) break;
                if (claim.ask(lacks, measured(), now) == Claim::Answer::granted) break;
                running_ = me;
                if (const Bytes give = claim.to_give(now); give) continue;
                one.member->sleep(calls, 0);
                running_ = me;
            }
            check();
            claim.rests(now);
        }
        obey(claim);
        claim.free(claim.promised(), measured(), now);
        check();
    }
    void obey(Claim& claim) {
        if (const Bytes give = claim.to_give(now)) claim.moved_out(give, measured(), now);
    }
    // What the driver says is in use plays no part here: the book alone must suffice.
    static Measured measured() { return {.size = 10 * GiB, .reserve = 0}; }

    void check() {
        Bytes sum = 0;
        for (const One& one : all_)
            if (!one.dead) sum += one.claim->promised();
        world_.check(sum <= 10 * GiB, "more is promised than the card has");
    }

    // ---- a bridge goes on, or another one
    void point() {
        const int me = running_;
        world_.load(place_, std::memory_order_relaxed);
        running_ = me;
    }
    void step() {
        if (dying_ || running_ < 0) return;
        if (running_ != kill_.bridge || taken_++ != kill_.step) return;
        dying_ = all_[static_cast<std::size_t>(running_)].dead = true;
        throw Killed();
    }
    void store() {
        step();
        if (at_stores_ && !dying_) point();
    }
    void wants_lock() override {
        step();
        point();
    }
    void finds_it_locked() override {
        const int me = running_;
        const unsigned seen = unlocked_;
        world_.block_until([this, seen] { return unlocked_ != seen; });
        running_ = me;
    }
    void has_unlocked() override {
        ++unlocked_;
        if (!dying_) point();
    }
    void sleep(const std::uint32_t& word, std::uint32_t seen) override {
        step();
        point();
        const int me = running_;
        world_.block_until([this, &word, seen] { return observe(word) != seen || alarms_; });
        if (observe(word) == seen) --alarms_;
        running_ = me;
    }
    // As the kernel does it. After that the timeout of one sleeper is over: it must find out, and call the other one.
    void died(int me) {
        ++*deaths_;
        One& one = all_[static_cast<std::size_t>(me)];
        os::lock_byte(one.member->fd(), 0, os::Lock::none, os::Holder::open_file);
        os::lock_byte(one.member->fd(), 1 + one.member->number(), os::Lock::none, os::Holder::open_file);
        ++unlocked_;
        alarms_ = 1;
        dying_ = false;
        kill_.bridge = -1;
    }

    static inline Scenario* current_ = nullptr;
    model::World& world_;
    const bool at_stores_;
    Kill kill_;
    unsigned* const deaths_;
    const unsigned place_;
    std::array<One, 3> all_;
    int running_ = -1;
    bool dying_ = false;
    unsigned taken_ = 0, unlocked_ = 0, alarms_ = 0;
};

struct CardsSchedules : testing::Test {
    test::Scratch scratch;
    std::array<Member, 3> members;
    void SetUp() override {
        for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(members[i].join(scratch / "cards", i + 1).text(), "");
    }

    unsigned deaths = 0;
    model::Outcome explore(const model::Limits& limits, bool at_stores, std::array<Bytes, 3> needs, int rounds = 1,
                           Scenario::Kill kill = {}) {
        std::unique_ptr<Scenario> scenario;
        model::Outcome outcome = model::explore(limits, [&](model::World& world) {
            scenario.reset();
            scenario = std::make_unique<Scenario>(world, members, at_stores, kill, &deaths);
            for (int i = 0; i < 3; ++i)
                world.thread([&scenario, i, needs, rounds] {
                    scenario->bridge(i, needs[static_cast<std::size_t>(i)] * GiB, rounds);
                });
        });
        scenario.reset();
        return outcome;
    }
};

// What each of them needs of 10 GiB, and how many times one is stopped between two steps. (A
// sleep, and a lock that is taken, do not count.)
TEST_F(CardsSchedules, OfAllOrdersOfLocksAndSleepsEnd) {
    if (sanitized) GTEST_SKIP() << "a plain build walks all orders; with sanitizers the two below do";
    struct {
        std::array<Bytes, 3> needs;
        unsigned preemptions;
    } const all[] = {{{6, 6, 6}, 3}, {{8, 2, 6}, 2}, {{3, 4, 10}, 2}};
    for (const auto& [needs, preemptions] : all) {
        const model::Outcome outcome = explore({.preemptions = preemptions}, false, needs);
        EXPECT_EQ(outcome.error, "");
        EXPECT_TRUE(outcome.exhausted);
        EXPECT_GT(outcome.executions, 500u);
    }
}

TEST_F(CardsSchedules, OfAllOrdersOfStoresEnd) {
    if (sanitized) GTEST_SKIP() << "a plain build walks all orders; with sanitizers the two below do";
    const model::Outcome outcome = explore({.preemptions = 2}, true, {6, 6, 6});
    EXPECT_EQ(outcome.error, "");
    EXPECT_TRUE(outcome.exhausted);
}

TEST_F(CardsSchedules, OfSeveralRoundsAtRandomEnd) {
    const model::Outcome outcome = explore({.random = 3000}, true, {6, 7, 8}, 3);
    EXPECT_EQ(outcome.error, "");
}

// Each of the three is killed before its first step, its second, and so on.
TEST_F(CardsSchedules, WithABridgeThatIsKilledAtAnyStepEnd) {
    std::uint64_t executions = 0;
    for (const int bridge : {0, 1, 2})
        for (unsigned step = 0;; ++step) {
            deaths = 0;
            const model::Outcome outcome = explore({.preemptions = 1}, false, {6, 6, 6}, 1, {bridge, step});
            ASSERT_EQ(outcome.error, "") << "bridge " << bridge << " killed before step " << step;
            ASSERT_TRUE(outcome.exhausted);
            executions += outcome.executions;
            if (!deaths) break;
        }
    EXPECT_GT(executions, 3'000u);
}

}  // namespace
}  // namespace barcuda::cards
