// SPDX-License-Identifier: Apache-2.0
// serve_test: how the loop of a worker ends a session, and what the client is told then.
#include "host-bridge/worker/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
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
    void post(std::uint32_t op, const std::vector<std::uint64_t>& body) {
        const RequestHead head{op, 0};
        std::memcpy(channel.commands(), &head, sizeof head);
        const std::size_t bytes = body.size() * sizeof body[0];
        if (bytes) std::memcpy(channel.commands() + sizeof head, body.data(), bytes);
        const virtqueue::Buffer chain[] = {
            {channel.offset + BARCUDA_COMMANDS_OFFSET, static_cast<std::uint32_t>(sizeof head + bytes), false}};
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

}  // namespace
}  // namespace barcuda
