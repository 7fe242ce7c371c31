// SPDX-License-Identifier: Apache-2.0
// shared_test: what the bridge keeps of memory and events that clients show each other.
#include "host-bridge/bridge/shared.h"

#include <gtest/gtest.h>

namespace barcuda {
namespace {

Shared::Handle handle(unsigned n) {
    Shared::Handle h{};
    h[0] = static_cast<char>(n), h[1] = static_cast<char>(n >> 8), h[63] = 'x';
    return h;
}

constexpr auto memory = Shared::Kind::memory, event = Shared::Kind::event;

struct SharedTest : testing::Test {
    Shared shared;
    Shared::Handle token(std::uint32_t channel, unsigned n) {
        Shared::Handle h = handle(n);
        EXPECT_TRUE(shared.offer(channel, memory, h));
        return h;
    }
    // What a token leads to; zeros: nothing.
    Shared::Handle behind(Shared::Handle h) { return shared.find(memory, h) ? h : Shared::Handle{}; }
};

TEST_F(SharedTest, ATokenLeadsBackToItsHandle) {
    const auto one = token(0, 1), two = token(0, 2);
    EXPECT_EQ(behind(one), handle(1));
    EXPECT_EQ(behind(two), handle(2));
}

TEST_F(SharedTest, AHandleHasOneToken) {
    EXPECT_EQ(token(0, 1), token(0, 1));
    EXPECT_EQ(shared.size(), 1u);
}

TEST_F(SharedTest, TokensOfTwoClientsDiffer) { EXPECT_NE(token(0, 1), token(1, 1)); }

TEST_F(SharedTest, ATokenShowsNothingOfItsHandle) {
    const auto t = token(0, 1);
    EXPECT_NE(t, handle(1));
    EXPECT_EQ(t[63], 0);
}

TEST_F(SharedTest, ATokenOfMemoryIsNoneOfAnEvent) {
    auto t = token(0, 1);
    EXPECT_FALSE(shared.find(event, t));
    auto other = handle(1);
    ASSERT_TRUE(shared.offer(0, event, other));
    EXPECT_NE(other, t);
    EXPECT_TRUE(shared.find(event, other));
}

TEST_F(SharedTest, WhatIsNoTokenLeadsNowhere) {
    auto nearly = token(0, 1);
    nearly[20] ^= 1;
    EXPECT_EQ(behind(nearly), Shared::Handle{});
    EXPECT_EQ(behind(handle(1)), Shared::Handle{});
    EXPECT_EQ(behind({}), Shared::Handle{});
}

TEST_F(SharedTest, AClientsTokensGoWithIt) {
    const auto gone = token(0, 1), stays = token(1, 2);
    shared.forget(0);
    EXPECT_EQ(behind(gone), Shared::Handle{});
    EXPECT_EQ(behind(stays), handle(2));
    EXPECT_NE(token(0, 1), gone) << "the next client of that channel is another";
}

TEST_F(SharedTest, OneClientHasOnlySoMany) {
    for (unsigned i = 0; i < Shared::most; ++i) token(0, i);
    Shared::Handle more = handle(Shared::most);
    EXPECT_FALSE(shared.offer(0, memory, more));
    EXPECT_EQ(more, handle(Shared::most));
    EXPECT_TRUE(shared.offer(1, memory, more)) << "another client has room of its own";
    token(0, 1);  // known already
}

}  // namespace
}  // namespace barcuda
