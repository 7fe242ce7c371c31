// SPDX-License-Identifier: Apache-2.0
// pool_test: which worker a client is given, how many wait, and what becomes of those that end. Workers are processes
// of the shell's.
#include "host-bridge/bridge/pool.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/support/shell_worker.h"

namespace barcuda {
namespace {

using Devices = std::vector<int>;
using namespace std::chrono_literals;
using test::await_end;
using test::open_driver;

const Devices one{0}, other{1};
bool always(std::uint64_t) { return true; }

// This program as a worker that is dying: its first thread has ended, and the process goes on.
const bool first_thread_ended = [] {
    if (!getenv("POOL_TEST_FIRST_THREAD_ENDS")) return false;
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);
    return true;
}();
std::string dying_worker() { return "POOL_TEST_FIRST_THREAD_ENDS=1 exec /proc/" + std::to_string(getpid()) + "/exe"; }

struct PoolTest : testing::Test {
    std::string script = test::idle;
    Loop loop;
    int started = 0;
    bool fails = false;
    std::vector<std::uint64_t> released;  // offsets
    Pool::Clock::time_point now = Pool::Clock::now();

    Pool::Worker start(const Devices& devices) {
        if (fails) {
            errno = EAGAIN;
            return nullptr;
        }
        auto worker = test::start_worker(script, devices);
        worker->reserved = {{static_cast<std::uint64_t>(++started), 64}};
        return worker;
    }
    std::unique_ptr<Pool> pool(WarmOptions options) {
        auto made = std::make_unique<Pool>(
            options, loop, [this](const Devices& devices) { return start(devices); },
            [this](Grants::Run run) { released.push_back(run.offset); });
        made->expect(one);
        return made;
    }
    static pid_t first(Pool& pool) {
        pid_t pid = -1;
        pool.each_waiting([&](const WorkerProcess& w) { pid = pid < 0 ? w.pid() : pid; });
        return pid;
    }
    static void open_all(Pool& pool) {
        pool.each_waiting([](WorkerProcess& w) { open_driver(w); });
    }
};

TEST_F(PoolTest, KeepsAsManyAsAreWanted) {
    const auto p = pool({.least = 2});
    p->keep({}, now);
    EXPECT_EQ(p->waiting(), 1u) << "drivers start one after the other";
    open_all(*p);
    p->keep({}, now);
    EXPECT_EQ(p->waiting(), 2u);
    EXPECT_EQ(p->warm(), 1u);
    open_all(*p);
    p->keep({}, now);
    EXPECT_EQ(p->waiting(), 2u);
    EXPECT_EQ(p->warm(), 2u);
}
TEST_F(PoolTest, StartsNoneWhileAClientsWorkerStartsOrAClientWaitsForMemory) {
    const auto p = pool({.least = 1});
    p->keep({.one_starts = true}, now);
    EXPECT_EQ(started, 0);
    p->keep({.one_asks = true}, now);
    EXPECT_EQ(started, 0);
    p->keep({}, now);
    EXPECT_EQ(started, 1);
}
TEST_F(PoolTest, GivesAClientAWorkerWithItsDevices) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    const pid_t waiting = first(*p);
    const Pool::Worker others = p->take(other, always, now);
    ASSERT_TRUE(others);
    EXPECT_NE(others->pid(), waiting);
    EXPECT_EQ(others->devices(), other);
    const Pool::Worker its = p->take(one, always, now);
    ASSERT_TRUE(its);
    EXPECT_EQ(its->pid(), waiting);
    EXPECT_EQ(p->waiting(), 0u);
}
TEST_F(PoolTest, PrefersAWarmWorkerToOneThatStarts) {
    const auto p = pool({.least = 2});
    p->add(start(one));
    p->add(start(one));
    pid_t last = -1;
    WorkerProcess* second = nullptr;
    p->each_waiting([&](WorkerProcess& w) {
        last = w.pid();
        second = &w;
    });
    open_driver(*second);
    EXPECT_EQ(p->take(one, always, now)->pid(), last);
}
TEST_F(PoolTest, GivesNoClientAWorkerThatHasDied) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    const pid_t dead = first(*p);
    kill(dead, SIGKILL);
    p->each_waiting([](const WorkerProcess& w) { await_end(w); });
    const Pool::Worker its = p->take(one, always, now);
    ASSERT_TRUE(its);
    EXPECT_NE(its->pid(), dead);
    EXPECT_EQ(released, std::vector<std::uint64_t>{1});
}
TEST_F(PoolTest, GivesNoClientAWorkerThatIsDying) {
    const auto p = pool({.least = 1});
    script = dying_worker();
    p->keep({}, now);
    const pid_t dying = first(*p);
    p->each_waiting([](const WorkerProcess& w) {
        while (!w.is_ending()) std::this_thread::yield();
        EXPECT_FALSE(w.has_gone());
    });
    script = test::idle;
    const Pool::Worker its = p->take(one, always, now);
    ASSERT_TRUE(its);
    EXPECT_NE(its->pid(), dying);
    EXPECT_TRUE(p->is_leaving());
}
TEST_F(PoolTest, HearsThatAWorkerHasDiedWhileItWaits) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    kill(first(*p), SIGKILL);
    while (p->waiting() != 0) {
        loop.wait(1s);
        loop.dispatch();
    }
    EXPECT_EQ(released, std::vector<std::uint64_t>{1});
}
TEST_F(PoolTest, HearsNothingOfAWorkerThatItHasGiven) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    const Pool::Worker its = p->take(one, always, now);
    int heard = 0;
    ASSERT_TRUE(its->hear_end(loop, [&] { ++heard; }));
    kill(its->pid(), SIGKILL);
    for (int turns = 0; heard == 0 && turns < 100; ++turns) {  // the end of its log is heard, too
        loop.wait(1s);
        loop.dispatch();
    }
    EXPECT_EQ(heard, 1);
}
TEST_F(PoolTest, GivesNoClientReservesThatItMayNotHave) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    const pid_t rich = first(*p);
    const Pool::Worker its = p->take(
        one, [](std::uint64_t bytes) { return bytes == 0; }, now);
    ASSERT_TRUE(its);
    EXPECT_NE(its->pid(), rich);
    EXPECT_TRUE(p->is_leaving());
    p->end();
    EXPECT_EQ(released, std::vector<std::uint64_t>{1});
}
TEST_F(PoolTest, SaysThatNoneCanBeStarted) {
    const auto p = pool({.least = 0});
    fails = true;
    errno = 0;
    EXPECT_EQ(p->take(one, always, now), nullptr);
    EXPECT_EQ(errno, EAGAIN);
}
TEST_F(PoolTest, WaitsBeforeItTriesAgainWhatFailed) {
    const auto p = pool({.least = 1});
    fails = true;
    p->keep({}, now);
    fails = false;
    p->keep({}, now + 99ms);
    EXPECT_EQ(started, 0);
    p->keep({}, now + 100ms);
    EXPECT_EQ(started, 1);
}
TEST_F(PoolTest, DropsReservesAndReleasesThemWhenTheirWorkersHaveEnded) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    EXPECT_TRUE(p->reserves());
    p->drop_reserves(now);
    EXPECT_FALSE(p->reserves());
    EXPECT_TRUE(p->leaving_reserves());
    EXPECT_TRUE(released.empty()) << "a worker that has not ended has its memory still";
    p->each([](const WorkerProcess& w) { await_end(w); });
    p->reap_leaving();
    EXPECT_FALSE(p->is_leaving());
    EXPECT_EQ(released, std::vector<std::uint64_t>{1});
    p->keep({}, now);
    EXPECT_EQ(started, 1) << "others come later";
}
TEST_F(PoolTest, ExpectsWhatTwoClientsInARowHaveWanted) {
    const auto p = pool({.least = 1});
    p->keep({}, now);
    p->served(other);
    EXPECT_EQ(p->waiting(), 1u);
    p->served(other);
    EXPECT_EQ(p->waiting(), 0u);
    EXPECT_TRUE(p->is_leaving());
    p->keep({}, now);
    p->each_waiting([](const WorkerProcess& w) { EXPECT_EQ(w.devices(), other); });
}
TEST_F(PoolTest, EndsAllWithItself) {
    auto p = pool({.least = 1});
    p->keep({}, now);
    const pid_t pid = first(*p);
    p.reset();
    EXPECT_EQ(kill(pid, 0), -1);
    EXPECT_EQ(released.size(), 1u);
}

}  // namespace
}  // namespace barcuda
