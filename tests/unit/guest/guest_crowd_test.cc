// SPDX-License-Identifier: Apache-2.0
// guest_crowd_test: few of the threads that wait look, and each of the others is called when its answer has come, not
// before.
#include "guest-allocator/client/crowd.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "shm-device/queue/sync.h"

namespace barcuda::guest {
namespace {

constexpr std::uint64_t ever = 60'000'000'000, soon = 1'000'000;  // ns

struct Crowds : testing::Test {
    Crowd crowd{1};
    unsigned long long word = 0, other = 0;
    Crowd::Place& join(unsigned long long value, bool in_turn = false) { return *crowd.join({&word, value, in_turn}); }
};

TEST_F(Crowds, HaveSoManyThatLook) {
    Crowd two(2);
    Crowd::Place &a = *two.join({&word, 1}), &b = *two.join({&word, 1}), &c = *two.join({&word, 1});
    EXPECT_TRUE(a.is_awake() && b.is_awake());
    EXPECT_FALSE(c.is_awake());
}

TEST_F(Crowds, AreCalledWhenTheirTimeHasComeAndNotBefore) {
    Crowd::Place& leader = join(9);
    std::vector<Crowd::Place*> places;
    for (unsigned i = 1; i <= 100; ++i) places.push_back(&join(i));
    word = 60;
    crowd.look(leader);
    for (unsigned i = 1; i <= 100; ++i) EXPECT_EQ(places[i - 1]->is_called(), i <= 60) << i;
    for (Crowd::Place* p : places) EXPECT_FALSE(p->is_awake());
    EXPECT_TRUE(crowd.sleep(*places[0], ever));  // has been called
}

TEST_F(Crowds, WaitForWordsOfTheirOwn) {
    Crowd::Place &leader = join(1), &a = join(1), &b = *crowd.join({&other, 1});
    other = 1;
    crowd.look(leader);
    EXPECT_TRUE(b.is_called());
    EXPECT_FALSE(a.is_called());
}

TEST_F(Crowds, HaveAnotherLeaderWhenTheirsLeaves) {
    Crowd::Place &a = join(1), &b = join(2), &c = join(3);
    crowd.leave(a);
    EXPECT_TRUE(b.is_awake());
    EXPECT_FALSE(c.is_awake());
    EXPECT_TRUE(crowd.sleep(b, ever));
    word = 3;
    crowd.look(b);
    EXPECT_TRUE(c.is_called());
    crowd.leave(c);
    crowd.leave(b);
    EXPECT_TRUE(join(4).is_awake());
}

TEST_F(Crowds, GoOnOneAfterTheOtherWhereThereMayNotBeEnoughForAll) {
    Crowd::Place &leader = join(9), &a = join(1, true), &b = join(1, true), &c = join(1, true);
    word = 1;
    crowd.look(leader);
    EXPECT_TRUE(a.is_called());
    EXPECT_FALSE(b.is_called() || c.is_called());
    crowd.leave(a);
    EXPECT_TRUE(b.is_called());
    EXPECT_FALSE(c.is_called());
    crowd.call_next();
    EXPECT_TRUE(c.is_called());
}

TEST_F(Crowds, ThatAreCalledForNothingWaitAgain) {
    Crowd::Place &leader = join(9), &a = join(1);
    word = 1;
    crowd.look(leader);
    ASSERT_TRUE(a.is_called());
    word = 0;
    crowd.join_again(a);
    EXPECT_FALSE(a.is_called() || a.is_awake());
    word = 1;
    crowd.look(leader);
    EXPECT_TRUE(a.is_called());
}

// A thread that has left its wait by longjmp will never look.
TEST_F(Crowds, DoNotRelyOnALeaderThatDoesNotLook) {
    Crowd::Place &gone = join(1), &a = join(2), &b = join(3);
    EXPECT_FALSE(crowd.sleep(a, soon));
    EXPECT_TRUE(a.is_awake());
    word = 3;
    crowd.look(a);
    EXPECT_TRUE(b.is_called());
    crowd.leave(gone);  // after all: the leader stays
    EXPECT_TRUE(a.is_awake());
}

TEST_F(Crowds, KeepALeaderThatLooks) {
    Crowd::Place &leader = join(1), &a = join(2);
    crowd.look(leader);
    EXPECT_FALSE(crowd.sleep(a, soon));
    EXPECT_FALSE(a.is_awake());
}

// Each thread waits as in patience.h. No thread is forgotten, whichever one leads.
TEST_F(Crowds, OfManyThreadsGoOnInTheEnd) {
    constexpr unsigned threads = 64, rounds = 200;
    std::atomic<unsigned long long> given{0};
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
        all.emplace_back([&] {
            for (unsigned round = 0; round < rounds; ++round) {
                const unsigned long long mine = given.fetch_add(1) + 1;
                Crowd::Place* place = nullptr;
                while (observe(word) < mine) {
                    if (!place) place = crowd.join({&word, mine});
                    else if (place->is_called()) crowd.join_again(*place);
                    else if (place->is_awake()) {
                        std::this_thread::yield();
                        crowd.look(*place);
                    } else crowd.sleep(*place, ever);
                }
                if (place) crowd.leave(*place);
            }
        });
    while (observe(word) < threads * rounds) {
        if (const unsigned long long now = given; now > word) publish(word, now);
        std::this_thread::yield();
    }
    for (std::thread& t : all) t.join();
}

}  // namespace
}  // namespace barcuda::guest
