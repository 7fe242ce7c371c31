// SPDX-License-Identifier: Apache-2.0
// pause_desk_test: which clients `barcuda pause` and `resume` mean, and what the bridge refuses before its workers know
// of an order. (What a worker's state refuses: pausing_test.)
#include "host-bridge/bridge/pause_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

using testing::HasSubstr;

struct PauseDeskTest : test::DesksTest {
    std::unique_ptr<PauseReply> reply = std::make_unique<PauseReply>();

    const PauseReply& ask(PauseRequest::What what, PauseRequest::By by = PauseRequest::all, std::uint32_t client = 0) {
        PauseRequest request;
        request.what = what;
        request.by = by;
        request.client = client;
        request.within = 1000;
        *reply = {};
        pauses->serve(request, *reply, {});
        return *reply;
    }
    static std::uint32_t ordered(const Client& client) { return observe(client.worker->sheet().orders.order); }
};

TEST_F(PauseDeskTest, AllThatHaveAWorkerAreMeantOrOneByItsChannelOrByEitherPid) {
    open({});
    turn();
    const Client &first = arrive(), &second = arrive();
    EXPECT_EQ(ask(PauseRequest::look).count, 2u);
    EXPECT_EQ(ask(PauseRequest::pause, PauseRequest::channel, second.slot()).count, 1u);
    EXPECT_EQ(reply->rows[0].channel, second.slot());
    EXPECT_TRUE(reply->rows[0].busy);
    const auto worker = static_cast<std::uint32_t>(first.worker->pid());
    EXPECT_EQ(ask(PauseRequest::pause, PauseRequest::pid, worker).count, 1u);
    EXPECT_EQ(reply->rows[0].channel, first.slot());
    EXPECT_EQ(ordered(first), 1u);
    EXPECT_EQ(ordered(second), 1u);
}
TEST_F(PauseDeskTest, AClientThatIsNotThereIsRefused) {
    const Client& client = arrive();
    EXPECT_THAT(ask(PauseRequest::pause, PauseRequest::pid, 1).error, HasSubstr("there is no such client"));
    EXPECT_EQ(reply->count, 0u);
    EXPECT_EQ(ordered(client), 0u);
}
TEST_F(PauseDeskTest, OfSeveralClientsWithOnePidNoneIsPaused) {
    const Client &first = arrive(), &second = arrive();
    EXPECT_THAT(ask(PauseRequest::pause, PauseRequest::pid, 4711).error, HasSubstr("name one by its channel"));
    EXPECT_EQ(reply->count, 0u);
    EXPECT_EQ(ordered(first) + ordered(second), 0u);
}
TEST_F(PauseDeskTest, AClientWithoutAWorkerHasNothingToPause) {
    const Channel watches = open({});
    turn();
    for (const auto what : {PauseRequest::pause, PauseRequest::resume}) {
        ASSERT_EQ(ask(what, PauseRequest::channel, watches.index).count, 1u);
        EXPECT_THAT(reply->rows[0].text, HasSubstr("it has no worker (yet)"));
        EXPECT_FALSE(reply->rows[0].busy);
    }
}
TEST_F(PauseDeskTest, AClientWhoseStateIsChangingIsRefusedEitherOrder) {
    const Client& client = arrive();
    ask(PauseRequest::pause);
    for (const auto what : {PauseRequest::pause, PauseRequest::resume}) {
        ASSERT_EQ(ask(what).count, 1u);
        EXPECT_THAT(reply->rows[0].text, HasSubstr("its state is changing already"));
    }
    EXPECT_EQ(ordered(client), 1u);
}

}  // namespace
}  // namespace barcuda
