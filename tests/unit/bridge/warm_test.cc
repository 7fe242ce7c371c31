// SPDX-License-Identifier: Apache-2.0
// How many workers the bridge keeps waiting, as clients come and stay away.
#include "host-bridge/bridge/warm.h"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using barcuda::WarmPool;

TEST(WarmPool, KeepsWhatTheOperatorSays) {
    const WarmPool::Time start{100s};
    WarmPool fixed({.least = 2});
    for (int i = 0; i < 10; ++i) fixed.client_came(false, start);
    EXPECT_EQ(fixed.wanted(start), 2u);
    EXPECT_EQ(fixed.most(), 2u);
    WarmPool none({.least = 0});
    none.client_came(false, start);
    EXPECT_EQ(none.wanted(start), 0u);
}

TEST(WarmPool, GrowsByThoseThatFoundNone) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 1, .most = 6});
    pool.client_came(true, start);
    EXPECT_EQ(pool.wanted(start), 1u);
    for (int i = 0; i < 3; ++i) pool.client_came(false, start);
    EXPECT_EQ(pool.wanted(start), 4u);
    for (int i = 0; i < 9; ++i) pool.client_came(false, start);
    EXPECT_EQ(pool.wanted(start), 6u);
}

TEST(WarmPool, StaysWithinItsMemory) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 2, .most = 9, .memory = 1000});
    const auto ask = [&] {
        for (int i = 0; i < 9; ++i) pool.client_came(false, start);
        return pool.wanted(start);
    };
    EXPECT_EQ(ask(), 9u);  // what one holds is not known yet
    pool.note_memory(180);
    EXPECT_EQ(ask(), 5u);
    pool.note_memory(100);
    EXPECT_EQ(ask(), 9u);
    pool.note_memory(300);
    EXPECT_EQ(ask(), 3u);
    pool.note_memory(600);
    EXPECT_EQ(ask(), 2u) << "so many always";
    WarmPool first({.least = 0, .most = 1, .first = 4, .memory = 1000});
    first.note_memory(500);
    EXPECT_EQ(first.wanted(start), 2u);
}

TEST(WarmPool, WaitsForTheFirstClientAlone) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 0, .most = 1, .idle = 10s, .first = 1});
    EXPECT_EQ(pool.wanted(start), 1u);
    EXPECT_EQ(pool.wanted(start + 99s), 1u);
    pool.client_came(false, start + 99s);
    EXPECT_EQ(pool.wanted(start + 99s), 0u);
    pool.client_came(false, start + 100s);
    EXPECT_EQ(pool.wanted(start + 100s), 1u);
    EXPECT_EQ(pool.wanted(start + 110s), 0u);
}

TEST(WarmPool, LetsClientsGoFirst) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 1});
    EXPECT_TRUE(pool.may_begin(false, start));
    pool.client_came(true, start);
    EXPECT_FALSE(pool.may_begin(false, start + 1ms));
    pool.client_came(false, start + 40ms);
    EXPECT_FALSE(pool.may_begin(false, start + 80ms));
    EXPECT_FALSE(pool.may_begin(true, start + 1s));
    EXPECT_TRUE(pool.may_begin(false, start + 1s));
    EXPECT_TRUE(pool.may_begin(false, start + 1s));
}

TEST(WarmPool, WaitsLongerBehindManyThatCameTogether) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 32});
    for (int i = 0; i < 32; ++i) pool.client_came(true, start + i * 1ms);
    const auto last = start + 31ms;
    EXPECT_FALSE(pool.may_begin(false, last + 600ms)) << "they may be at their first copies yet";
    EXPECT_TRUE(pool.may_begin(false, last + 1s));
    pool.client_came(true, last + 2s);
    EXPECT_TRUE(pool.may_begin(false, last + 2s + 50ms)) << "one that came alone";
    auto t = last + 3s;
    for (int i = 0; i < 8; ++i) pool.client_came(true, t);
    for (int i = 0; i < 5; ++i) pool.client_came(true, t += 150ms);
    EXPECT_TRUE(pool.may_begin(false, t + 50ms)) << "one after the other behind many is not many";
}

TEST(WarmPool, BeginsOneAtATimeWhereClientsGoOnComing) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 4});
    int begun = 0;
    for (auto t = start; t < start + 25s; t += 20ms) {
        pool.client_came(false, t);
        begun += pool.may_begin(true, t);
        EXPECT_FALSE(pool.may_begin(true, t));
    }
    EXPECT_EQ(begun, 2);
}

TEST(WarmPool, ShrinksWhenNobodyComes) {
    const WarmPool::Time start{100s};
    WarmPool pool({.least = 1, .most = 6, .idle = 10s});
    for (int i = 0; i < 3; ++i) pool.client_came(false, start);
    EXPECT_EQ(pool.wanted(start + 9s), 4u);
    pool.client_came(true, start + 9s);
    EXPECT_EQ(pool.wanted(start + 18s), 4u);
    EXPECT_EQ(pool.wanted(start + 19s), 1u);
    pool.client_came(false, start + 30s);
    EXPECT_EQ(pool.wanted(start + 30s), 2u);
}

}  // namespace
