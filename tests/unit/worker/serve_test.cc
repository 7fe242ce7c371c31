// SPDX-License-Identifier: Apache-2.0
// serve_test: how the loop of a worker ends a session, and what the client is told then.
#include "host-bridge/worker/serve.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/supply.h"
#include "tests/unit/support/channel_memory.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

// All of the client's memory is in the store, and its bridge has granted its return.
struct Away : Residence::Memory {
    CUresult gpu = CUDA_SUCCESS;
    bool quiet() override { return true; }
    bool captures() override { return false; }
    void put_out(std::size_t, std::uint64_t) override {}
    CUresult bring_back(std::size_t) override { return gpu; }
    Lack lacks() override { return {}; }
    void forget_lack() override {}
    void look() override {}
    void shrink_store() override {}
};

struct ServeTest : testing::Test {
    fake::Ground ground;
    SessionScope scope{ground.session};
    ChannelMemory memory = channel_memory();
    Channel channel = at(memory.get());
    virtqueue::Driver<> queue{virtqueue::in_channel(memory.get())};
    Supply supply{channel.supply(), {}, ground, ground.extents, Preparation{}};
    ChannelReader reader{channel};
    Sheet sheet{};
    Away away;
    std::vector<Promise> cards{Promise(sheet.cards[0])};
    Residence residence{cards, away};
    BridgeLink link{-1};  // no bridge carries the client
    Leave leave{ground.session, reader, supply, link, sheet.carry};

    static Channel at(char* memory) {
        Channel c;
        c.memory = memory;
        c.offset = BARCUDA_CHANNELS_OFFSET;
        return c;
    }
    void post(Op op) { post(static_cast<std::uint32_t>(op), {}); }
    // `place`: bytes from the begin of the commands' memory.
    void post(std::uint32_t op, const std::vector<std::uint64_t>& body, std::uint64_t place = 0) {
        const RequestHead head{op, 0};
        char* const at = channel.commands() + place;
        std::memcpy(at, &head, sizeof head);
        const std::size_t bytes = body.size() * sizeof body[0];
        if (bytes) std::memcpy(at + sizeof head, body.data(), bytes);
        const virtqueue::Buffer chain[] = {
            {channel.offset + BARCUDA_COMMANDS_OFFSET + place, static_cast<std::uint32_t>(sizeof head + bytes), false}};
        queue.post(chain);
    }
};

TEST_F(ServeTest, AClientWhoseMemoryIsLostHearsTheGpusError) {
    constexpr std::uint64_t bytes = 64 << 20;
    cards[0].end_sharing();  // everything fits
    cards[0].set_out(bytes);
    away.gpu = CUDA_ERROR_ECC_UNCORRECTABLE;
    post(Op::cuCtxSynchronize);
    EXPECT_EQ(1, serve(reader, ground.session, supply, channel.status(), sheet, leave, &residence));
    EXPECT_EQ(std::uint32_t{BARCUDA_STATE_DEAD}, channel.status().state);
    EXPECT_EQ(CUDA_ERROR_ECC_UNCORRECTABLE, channel.status().fatal_error);
    EXPECT_THAT(channel.status().message, testing::HasSubstr("does not take back the memory"));
}

TEST_F(ServeTest, TheNumberOfACallStandsBeforeACommandsValues) {
    const auto op = static_cast<std::uint32_t>(Op::cuCtxSynchronize);
    post(op | correlated, {4711, 5});
    const auto command = reader.next();
    ASSERT_TRUE(command);
    EXPECT_EQ(op, command->head.op);
    EXPECT_EQ(4711U, command->call);
    ASSERT_EQ(sizeof(std::uint64_t), command->body.size());
    EXPECT_EQ(std::byte{5}, command->body[0]);
}

TEST_F(ServeTest, ACommandThatPromisesTheNumberOfACallHasIt) {
    post(static_cast<std::uint32_t>(Op::cuCtxSynchronize) | correlated, {});
    EXPECT_EQ(1, serve(reader, ground.session, supply, channel.status(), sheet, leave, nullptr));
    EXPECT_THAT(channel.status().message, testing::HasSubstr("without the number of its call"));
}

// Of a client that connected to a build with one more row, in front of all others.
struct OtherBuild : ServeTest {
    OtherBuild() {
        ClientRows::State rows = ground.session.client_rows().state();
        rows.insert(rows.begin(), {0x4711, "cuOther", false});
        ground.session.client_rows().restore(rows);
        channel.client().rows_hash = ground.session.client_rows().hash();
    }
    // To the end of the session: how it ended.
    std::string serve_all() {
        EXPECT_EQ(1, serve(reader, ground.session, supply, channel.status(), sheet, leave, nullptr));
        return channel.status().message;
    }
    static constexpr auto beyond = static_cast<std::uint32_t>(Op::count) + 1;
};
TEST_F(OtherBuild, AClientsNumbersAreItsOwn) {
    post(static_cast<std::uint32_t>(Op::cuMemFree_v2) + 1, {});
    EXPECT_EQ(serve_all(), "the bridge refused a malformed cuMemFree_v2");
    EXPECT_TRUE(ground.session.client_rows().state()[static_cast<std::size_t>(Op::cuMemFree_v2) + 1].needed);
}
TEST_F(OtherBuild, ACommandThatIsLackingAnswersSoAndTheSessionGoesOn) {
    post(0, {});
    post(beyond, {}, 64);
    EXPECT_EQ(serve_all(), fmt::format("the bridge refused a malformed command {}", beyond));
    EXPECT_EQ(ground.status.posted_count, 1u);
    EXPECT_EQ(ground.status.posted_error, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(ground.status.posted_op, 0u);
}
TEST_F(OtherBuild, AFailureIsToldByTheClientsNumber) {
    ground.session.fences().post_failure(static_cast<std::uint32_t>(Op::cuCtxSynchronize), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(ground.status.posted_op, static_cast<std::uint32_t>(Op::cuCtxSynchronize) + 1);
}
TEST_F(ServeTest, AClientThatHasReadAnotherBridgesRowsIsRefused) {
    channel.client().rows_hash = ground.session.client_rows().hash() + 1;
    post(Op::cuCtxSynchronize);
    EXPECT_EQ(1, serve(reader, ground.session, supply, channel.status(), sheet, leave, nullptr));
    EXPECT_THAT(channel.status().message, testing::HasSubstr("one of another version"));
}

}  // namespace
}  // namespace barcuda
