// SPDX-License-Identifier: Apache-2.0
// managed_gates_model_test: posts against gates, and system calls against ends of host functions, under a model checker
// (support/model.h). Every scenario is run in all its interleavings within a bound on preemptions, and then with an
// ordering taken away, or a step left out: the checker must notice.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "guest-allocator/driver/managed/state/gates.h"
#include "tests/unit/support/model.h"
#include "tests/unit/support/model_fixture.h"

namespace barcuda::guest::managed {
namespace {

using model::explore;
using model::Limits;
using model::Order;
using model::Outcome;
using model::World;
using Lock = std::unique_lock<model::Sync::Mutex>;

class GatesModel : public model::Fixture {};

const char* const together = "a command is posted while a gate is shut";
const char* const unseen = "a gate does not see what was posted before it";
const char* const unordered = "the fast path is taken before what it relies on is there";
constexpr std::uint64_t key = 4;                               // of the stream that all posts here are for
constexpr int first_poster = 0, second_poster = 1, taker = 2;  // threads, in the order in which scenarios name them

// A step of the protocol that a scenario leaves out.
enum class Without { nothing, wait_for_posts, wait_for_gates, end_of_fast_path, recount, look_at_posts };

struct Device {
    model::Sync::Atomic<std::uint64_t> fast_path;
    Gates<model::Sync> gates{fast_path};
    model::Sync::Mutex mutex;
    model::Bytes commands[2];  // what each poster has posted
    model::Bytes migration;    // what the slow path posts before it opens the fast path
    unsigned posted[2] = {};   // the truth about `commands`
    int posting = 0;           // threads that are between the count and its end
    bool exclusive = false;    // a thread takes memory back
};

void post(World& w, Device& d, int number, Without without) {
    const bool fast = d.gates.try_post(key);
    if (fast) {
        w.check(d.migration.get() == 1, unordered);
    } else {
        Lock lock(d.mutex);
        if (without != Without::wait_for_gates) d.gates.await_open(lock, 0);
        if (without != Without::recount) d.gates.begin_post();
        d.migration.set(1);
        if (!d.gates.any_shut()) d.gates.open_fast_path(key);
    }
    ++d.posting;
    w.check(!d.exclusive, together);
    d.commands[number].set(++d.posted[number]);
    w.check(!d.exclusive, together);
    --d.posting;
    if (fast || without != Without::recount) d.gates.end_post();
}

// `reads`: what was posted before must be visible, too.
void take_back(World& w, Device& d, bool reads, Without without) {
    {
        Lock lock(d.mutex);
        d.gates.shut();
        if (without == Without::end_of_fast_path) d.gates.open_fast_path(key);
    }
    if (without != Without::wait_for_posts) d.gates.await_posts([&w](auto done) { w.await(done); });
    d.exclusive = true;
    w.check(d.posting == 0, together);
    for (int i = 0; i < 2; ++i) w.check(d.commands[i].get() == d.posted[i] || !reads, unseen);
    w.check(d.posting == 0, together);
    d.exclusive = false;
    Lock lock(d.mutex);
    d.gates.open();
}

// A thread that has the device to itself for a moment, or else does without: it waits for no other thread.
void exclude_at_once(World& w, Device& d, bool reads, Without without) {
    Lock lock(d.mutex);
    bool alone = d.gates.try_exclude();
    if (without == Without::end_of_fast_path) d.gates.open_fast_path(key);
    if (without == Without::look_at_posts) alone = !d.gates.any_shut();
    if (!alone) return;
    d.exclusive = true;
    w.check(d.posting == 0, together);
    for (int i = 0; i < 2; ++i) w.check(d.commands[i].get() == d.posted[i] || !reads, unseen);
    w.check(d.posting == 0, together);
    d.exclusive = false;
}

// Two threads post, the first of them twice, so that it takes the fast path too; a third takes memory back.
void posts_and_a_gate(World& w, bool reads, Without without = Without::nothing) {
    auto d = std::make_shared<Device>();
    w.thread([&w, d, without] {
        post(w, *d, 0, without);
        post(w, *d, 0, without);
    });
    w.thread([&w, d, without] { post(w, *d, 1, without); });
    w.thread([&w, d, reads, without] { take_back(w, *d, reads, without); });
}

void posts_and_an_exclusion(World& w, bool reads, Without without = Without::nothing) {
    auto d = std::make_shared<Device>();
    w.thread([&w, d, without] {
        post(w, *d, 0, without);
        post(w, *d, 0, without);
    });
    w.thread([&w, d, without] { post(w, *d, 1, without); });
    w.thread([&w, d, reads, without] { exclude_at_once(w, *d, reads, without); });
}
// A gate is another thread's turn: its thread may be about to open memory.
void a_gate_and_an_exclusion(World& w) {
    auto d = std::make_shared<Device>();
    w.thread([&w, d] { take_back(w, *d, true, Without::nothing); });
    w.thread([&w, d] {
        const Lock lock(d->mutex);
        if (d->gates.try_exclude()) w.check(!d->exclusive, together);
    });
}

// A thread that has shut a gate posts behind it, as the launch of a host function does; others wait.
void post_behind_an_own_gate(World& w) {
    auto d = std::make_shared<Device>();
    w.thread([&w, d] { post(w, *d, 0, Without::nothing); });
    w.thread([&w, d] { take_back(w, *d, true, Without::nothing); });
    w.thread([&w, d] {
        {
            Lock lock(d->mutex);
            d->gates.shut();
        }
        d->gates.await_posts([&w](auto done) { w.await(done); });
        Lock lock(d->mutex);
        d->gates.await_open(lock, 1);
        d->gates.begin_post();
        lock.unlock();
        w.check(!d->exclusive, together);
        d->gates.end_post();
        lock.lock();
        d->gates.open();
    });
}

// Two system calls, and a host function that ends and takes away the memory that they use.
struct Memory {
    Calls<model::Sync> calls;
    model::Sync::Mutex mutex;
    model::Bytes access;  // 0: the CPU has it
    model::Bytes turn;    // a place at which another thread may go on
    int in_calls = 0;
};
const char* const taken_away = "memory is taken away from a system call";
void system_call(World& w, Memory& m, bool waits) {
    {
        Lock lock(m.mutex);
        if (waits) m.calls.await_ends(lock);
        m.access.set(0);
        m.calls.begin();
        ++m.in_calls;
    }
    w.check(m.access.get() == 0, taken_away);
    m.turn.get();
    w.check(m.access.get() == 0, taken_away);
    Lock lock(m.mutex);
    --m.in_calls;
    m.calls.end();
}
void calls_and_an_end(World& w, bool excludes = true) {
    auto m = std::make_shared<Memory>();
    w.thread([&w, m] { system_call(w, *m, true); });
    w.thread([&w, m] { system_call(w, *m, true); });
    w.thread([&w, m, excludes] {
        Lock lock(m->mutex);
        const auto act = [&] {
            m->access.set(1);
            w.check(m->in_calls == 0, taken_away);
        };
        if (excludes) m->calls.exclude(lock, act);
        else act();
    });
}

void passes(const Limits& limits, const std::function<void(World&)>& scenario) {
    const Outcome o = explore(limits, scenario);
    EXPECT_EQ(o.error, "");
    EXPECT_TRUE(o.exhausted || limits.random != 0) << "gave up after " << o.executions;
    std::printf("%llu executions\n", static_cast<unsigned long long>(o.executions));
}
// Something must go wrong, and the checker must find it.
void fails(const Limits& limits, const std::function<void(World&)>& scenario, const char* failure) {
    const Outcome o = explore(limits, scenario);
    EXPECT_EQ(o.error.substr(0, o.error.find('\n')), failure) << "after " << o.executions << ": " << o.error;
}
void needs(int thread, Order what, const char* failure) {
    fails(
        {.weaken = {thread, what}}, [failure](World& w) { posts_and_a_gate(w, failure == unseen); }, failure);
}
void exclusion_needs(Without step, const char* failure) {
    fails(
        {}, [step](World& w) { posts_and_an_exclusion(w, false, step); }, failure);
}
void needs(Without step, const char* failure) {
    fails(
        {}, [step](World& w) { posts_and_a_gate(w, false, step); }, failure);
}

TEST_F(GatesModel, NothingIsPostedWhileAGateIsShut) {
    passes({.preemptions = 2}, [](World& w) { posts_and_a_gate(w, true); });
}
TEST_F(GatesModel, NothingIsPostedDuringAnExclusion) {
    passes({.preemptions = 2}, [](World& w) { posts_and_an_exclusion(w, true); });
}
TEST_F(GatesModel, AnExclusionLeavesAGateItsTurn) { passes({.preemptions = 3}, a_gate_and_an_exclusion); }
TEST_F(GatesModel, AnExclusionMustLookAtPosts) { exclusion_needs(Without::look_at_posts, together); }
TEST_F(GatesModel, AnExclusionMustEndTheFastPath) { exclusion_needs(Without::end_of_fast_path, together); }
TEST_F(GatesModel, AnExclusionMustEndTheFastPathBeforeItLooks) {
    fails(
        {.weaken = {taker, Order::total}}, [](World& w) { posts_and_an_exclusion(w, false); }, together);
}
TEST_F(GatesModel, NothingIsPostedInRandomInterleavings) {
    passes({.random = 20'000}, [](World& w) { posts_and_a_gate(w, true); });
}
TEST_F(GatesModel, AThreadPostsBehindItsOwnGate) { passes({.preemptions = 2}, post_behind_an_own_gate); }
TEST_F(GatesModel, NoMemoryIsTakenFromASystemCall) {
    passes({.preemptions = 3}, [](World& w) { calls_and_an_end(w); });
}

TEST_F(GatesModel, APostMustCountItselfBeforeItLooks) { needs(first_poster, Order::total, together); }
TEST_F(GatesModel, AGateMustEndTheFastPathBeforeItLooks) { needs(taker, Order::total, together); }
TEST_F(GatesModel, AGateSeesPostsByTheirRelease) { needs(second_poster, Order::release, unseen); }
TEST_F(GatesModel, AGateSeesPostsByItsAcquire) { needs(taker, Order::acquire, unseen); }
TEST_F(GatesModel, TheFastPathIsOpenedByARelease) { needs(second_poster, Order::release, unordered); }
TEST_F(GatesModel, TheFastPathIsTakenByAnAcquire) { needs(first_poster, Order::acquire, unordered); }

TEST_F(GatesModel, AGateMustWaitForPosts) { needs(Without::wait_for_posts, together); }
TEST_F(GatesModel, AGateMustEndTheFastPath) { needs(Without::end_of_fast_path, together); }
TEST_F(GatesModel, APostMustWaitForGates) { needs(Without::wait_for_gates, together); }
TEST_F(GatesModel, APostMustCountItselfAgainUnderTheLock) { needs(Without::recount, together); }
TEST_F(GatesModel, AnEndMustWaitForSystemCalls) {
    fails(
        {}, [](World& w) { calls_and_an_end(w, false); }, taken_away);
}

}  // namespace
}  // namespace barcuda::guest::managed
