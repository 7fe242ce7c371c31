// SPDX-License-Identifier: Apache-2.0
// loop_test: which watches are called, in which order and how often, and what becomes of those that end.
#include "host-bridge/bridge/loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/message.h"

namespace barcuda {
namespace {

using namespace std::chrono_literals;
using Rank = Loop::Rank;

struct LoopTest : testing::Test {
    Loop loop;
    std::string called;
    struct Event {
        File file{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        Loop::Watch watch;
    };
    static void ring(const Event& event) {
        const std::uint64_t once = 1;
        ASSERT_EQ(write(event.file.fd(), &once, sizeof once), static_cast<ssize_t>(sizeof once));
    }
    static void take(const Event& event) {
        std::uint64_t rings = 0;
        ASSERT_EQ(read(event.file.fd(), &rings, sizeof rings), static_cast<ssize_t>(sizeof rings));
    }
    // Says its name, and takes the ring.
    std::unique_ptr<Event> event(char name, Rank rank = Rank::request) {
        auto made = std::make_unique<Event>();
        made->watch = loop.watch(made->file.fd(), rank, [this, name, its = made.get()](short) {
            called += name;
            take(*its);
        });
        return made;
    }
    std::optional<Rank> turn() {
        called.clear();
        loop.wait(0ms);
        return loop.dispatch();
    }
};

TEST_F(LoopTest, WhereNothingHappensNothingIsCalled) {
    const auto a = event('a');
    EXPECT_FALSE(loop.wait(1ms));
    EXPECT_FALSE(loop.dispatch());
    EXPECT_EQ(called, "");
}
TEST_F(LoopTest, WhatHappensIsCalledOnce) {
    const auto a = event('a');
    ring(*a);
    EXPECT_TRUE(loop.wait(0ms));
    EXPECT_EQ(called, "") << "not before dispatch()";
    EXPECT_EQ(loop.dispatch(), Rank::request);
    EXPECT_EQ(called, "a");
    EXPECT_FALSE(turn());
}
TEST_F(LoopTest, ALowerRankComesFirst) {
    const auto e = event('e', Rank::end), t = event('t', Rank::tool), r = event('r'), g = event('g', Rank::guest);
    for (const auto* its : {&e, &t, &r, &g}) ring(**its);
    EXPECT_EQ(turn(), Rank::guest);
    EXPECT_EQ(called, "gret");
}
TEST_F(LoopTest, AWatchThatFloodsKeepsNoOtherFromItsTurn) {
    const auto e = event('e', Rank::end);
    Event flood;
    flood.watch = loop.watch(flood.file.fd(), Rank::request, [&](short) { called += 'f'; });  // and leaves its ring
    ring(*e);
    ring(flood);
    turn();
    EXPECT_EQ(called, "fe");
    turn();
    EXPECT_EQ(called, "f") << "it goes on in the next turn";
}
TEST_F(LoopTest, AWatchThatIsGoneIsNotCalled) {
    const auto a = event('a');
    ring(*a);
    a->watch = {};
    turn();
    EXPECT_EQ(called, "");
}
TEST_F(LoopTest, AWatchMayEndItself) {
    Event once;
    once.watch = loop.watch(once.file.fd(), Rank::request, [&, text = std::string(100, 'o')](short) {
        once.watch = {};
        called += text.substr(99);  // what the handler has is there until it returns
    });
    ring(once);
    turn();
    EXPECT_EQ(called, "o");
    turn();
    EXPECT_EQ(called, "");
}
TEST_F(LoopTest, AWatchThatEndsItselfMayCloseADescriptorThatAnotherProcessHas) {
    Event once;
    once.watch = loop.watch(once.file.fd(), Rank::request, [&](short) {
        once.watch = {};
        once.file = File();
    });
    Event others;
    others.file = File(fcntl(once.file.fd(), F_DUPFD_CLOEXEC, 0));
    ring(others);
    turn();
    EXPECT_FALSE(once.file);
    EXPECT_FALSE(loop.wait(1ms)) << "the kernel's list has it still";
}
TEST_F(LoopTest, AWatchMayEndAnotherThatIsDueInTheSameTurn) {
    const auto later = event('l', Rank::end);
    Event first;
    first.watch = loop.watch(first.file.fd(), Rank::request, [&](short) {
        take(first);
        later->watch = {};
    });
    ring(first);
    ring(*later);
    turn();
    EXPECT_EQ(called, "");
}
TEST_F(LoopTest, OneThatRestsIsCalledLater) {
    const auto a = event('a');
    ring(*a);
    const auto until = Loop::Clock::now() + 20ms;
    a->watch.rest_until(until);
    turn();
    if (Loop::Clock::now() < until) { EXPECT_EQ(called, ""); }
    while (called.empty()) turn();
    EXPECT_GE(Loop::Clock::now(), until);
}
TEST_F(LoopTest, TheOtherEndsCloseIsHeard) {
    int pipe[2];
    ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    const File from(pipe[0]);
    File into(pipe[1]);
    short events = 0;
    const auto watch = loop.watch(from.fd(), Rank::request, [&](short what) { events = what; });
    into = File();
    turn();
    EXPECT_TRUE(events & POLLHUP);
}
TEST_F(LoopTest, WhatIsNoDescriptorCannotBeWatched) {
    EXPECT_FALSE(loop.watch(-1, Rank::request, [](short) {}));
}
TEST_F(LoopTest, StoppedItCallsNothingMore) {
    const auto e = event('e', Rank::end);
    Event stop;
    stop.watch = loop.watch(stop.file.fd(), Rank::stop, [&](short) { loop.stop(); });
    ring(*e);
    ring(stop);
    EXPECT_EQ(turn(), Rank::stop);
    EXPECT_TRUE(loop.stopped());
    EXPECT_EQ(called, "");
}

}  // namespace
}  // namespace barcuda
