// SPDX-License-Identifier: Apache-2.0
// shared_test: what the bridge remembers of memory and events that clients share.
#include "host-bridge/between/shared.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace barcuda {
namespace {

Shared::Handle handle(unsigned n) {
    Shared::Handle h{};
    h[0] = static_cast<char>(n);
    h[1] = static_cast<char>(n >> 8);
    h[63] = 'x';
    return h;
}

constexpr auto memory = Shared::Kind::memory, event = Shared::Kind::event, allocation = Shared::Kind::allocation,
               pool = Shared::Kind::pool;

struct SharedTest : testing::Test {
    Shared shared{3};
    Shared::Handle token(std::uint32_t channel, unsigned n) {
        Shared::Handle h = handle(n);
        EXPECT_TRUE(shared.offer(channel, memory, h));
        return h;
    }
    // What a token leads to; zeros: nothing.
    Shared::Handle behind(const Shared::Handle& token) {
        const Shared::Thing* thing = shared.find(memory, token);
        return thing ? thing->handle : Shared::Handle{};
    }
    // A descriptor's token; `fd` is its number, for a check whether it is open.
    Shared::Handle file_token(std::uint32_t channel, int& fd) {
        Shared::Handle token{};
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        EXPECT_TRUE(shared.offer(channel, allocation, token, File(fd)));
        return token;
    }
    static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
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
    EXPECT_FALSE(shared.find(pool, other));
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

// ---- clients that share ---------------------------------------------------------------------------------------------
TEST_F(SharedTest, ClientsShareFromTheFirstOpeningUntilOneIsGone) {
    EXPECT_EQ(shared.shares_with(0), -1);
    const Shared::Handle its = token(0, 1);
    EXPECT_EQ(shared.shares_with(0), 0) << "another client may open it at any moment";
    EXPECT_EQ(shared.shares_with(1), -1);
    ASSERT_TRUE(shared.open(1, memory, its));
    EXPECT_EQ(shared.shares_with(0), 1);
    EXPECT_EQ(shared.shares_with(1), 0);
    shared.withdraw(0, its);
    EXPECT_EQ(shared.shares_with(1), 0) << "what is open stays open";
    shared.forget(0);
    EXPECT_EQ(shared.shares_with(1), -1);
}
TEST_F(SharedTest, WhatIsWithdrawnUnopenedIsNotShared) {
    const Shared::Handle its = token(0, 1);
    EXPECT_FALSE(shared.open(1, pool, its));
    shared.withdraw(0, its);
    EXPECT_EQ(shared.shares_with(0), -1);
    EXPECT_EQ(shared.shares_with(1), -1);
}

// ---- descriptors ----------------------------------------------------------------------------------------------------
TEST_F(SharedTest, ADescriptorIsOpenUntilItsClientWithdrawsIt) {
    int fd = -1;
    const auto token = file_token(0, fd);
    ASSERT_TRUE(shared.find(allocation, token));
    EXPECT_EQ(shared.find(allocation, token)->file.fd(), fd);
    EXPECT_FALSE(shared.find(pool, token));
    EXPECT_FALSE(shared.find(memory, token));
    shared.withdraw(0, token);
    EXPECT_FALSE(shared.find(allocation, token));
    EXPECT_FALSE(is_open(fd));
    EXPECT_EQ(shared.size(), 0u);
}

TEST_F(SharedTest, OrEnds) {
    int fd = -1, others = -1;
    const auto token = file_token(0, fd);
    file_token(1, others);
    shared.forget(0);
    EXPECT_FALSE(shared.find(allocation, token));
    EXPECT_FALSE(is_open(fd));
    EXPECT_TRUE(is_open(others));
}

TEST_F(SharedTest, NobodyWithdrawsWhatIsAnothers) {
    int fd = -1;
    const auto file = file_token(0, fd), handles = token(0, 1);
    shared.withdraw(1, file);
    shared.withdraw(1, handles);
    EXPECT_TRUE(is_open(fd));
    EXPECT_EQ(behind(handles), handle(1));
    shared.withdraw(0, handles);
    EXPECT_EQ(behind(handles), Shared::Handle{});
    EXPECT_NE(token(0, 1), handles);
}

TEST_F(SharedTest, EachDescriptorHasATokenOfItsOwn) {
    int one, two;
    EXPECT_NE(file_token(0, one), file_token(0, two));
}

TEST_F(SharedTest, OneClientHasOnlySoManyDescriptors) {
    int fd[4];
    const auto first = file_token(0, fd[0]);
    file_token(0, fd[1]);
    file_token(0, fd[2]);
    Shared::Handle more{};
    fd[3] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_FALSE(shared.offer(0, allocation, more, File(fd[3])));
    EXPECT_FALSE(is_open(fd[3]));
    EXPECT_EQ(behind(token(0, 1)), handle(1)) << "handles are counted apart";
    int others;
    file_token(1, others);
    shared.withdraw(0, first);
    file_token(0, fd[0]);
}

}  // namespace
}  // namespace barcuda
