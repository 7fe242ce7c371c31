// SPDX-License-Identifier: Apache-2.0
// upgrade_desk_test: which orders of `barcuda upgrade` the bridge refuses, and what it says of its keeper's refusals.
// (What a keeper refuses: upgrade_test.)
#include "host-bridge/bridge/upgrade_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/unit/support/desks.h"

namespace barcuda {
namespace {

using keeping::Form;
using testing::HasSubstr;

// Answers each order with the same error, until its bridge closes the link.
class RefusingKeeper {
  public:
    explicit RefusingKeeper(int error) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        bridges_ = File(ends[1]);
        thread_ = std::thread([this, error, own = File(ends[0])] {
            keeping::Request request;
            for (File file; receive_message(own.fd(), &request, sizeof request, file, 0) == sizeof request;) {
                const bool is_order = static_cast<Form>(request.form) != Form::progress;
                if (is_order) orders.emplace_back(request.name_text());
                const keeping::Answer answer{.form = request.form, .error = is_order ? error : 0};
                send_message(own.fd(), &answer, sizeof answer, -1);
            }
        });
    }
    ~RefusingKeeper() { thread_.join(); }
    File link() { return std::move(bridges_); }

    std::vector<std::string> orders;

  private:
    File bridges_;
    std::thread thread_;
};

struct UpgradeDeskTest : test::DesksTest {
    std::unique_ptr<UpgradeReply> reply = std::make_unique<UpgradeReply>();

    const char* ask(const Kept& kept, std::string_view program = "/bin/true", std::uint32_t within = 1000,
                    UpgradeRequest::What what = UpgradeRequest::check) {
        UpgradeRequest request;
        request.what = what;
        request.within = within;
        program.copy(request.program, sizeof request.program - 1);
        *reply = {};
        UpgradeDesk(kept, *clients).serve(request, *reply, {});
        return reply->error;
    }
};

TEST_F(UpgradeDeskTest, WithoutAKeeperNothingIsReplaced) {
    for (const auto what : {UpgradeRequest::look, UpgradeRequest::check, UpgradeRequest::upgrade})
        EXPECT_THAT(ask({}, "/bin/true", 1000, what), HasSubstr("no keeper"));
}
TEST_F(UpgradeDeskTest, AnOrderThatNoCommandSendsDoesNotReachTheKeeper) {
    RefusingKeeper keeper(0);
    const Kept kept(keeper.link());
    EXPECT_THAT(ask(kept, "bin/true"), HasSubstr("does not begin with /"));
    EXPECT_THAT(ask(kept, "/nowhere/bridge"), HasSubstr("/nowhere/bridge: No such file"));
    EXPECT_THAT(ask(kept, "/bin/true", 0), HasSubstr("--within is more than 0 s"));
    EXPECT_THAT(ask(kept, "/bin/true", keeping::longest_wait + 1), HasSubstr("at most 600 s"));
    EXPECT_TRUE(keeper.orders.empty());
    EXPECT_STREQ(ask(kept), "");
    ASSERT_EQ(keeper.orders.size(), 1u);
    EXPECT_THAT(keeper.orders[0], HasSubstr("layout"));
}
TEST_F(UpgradeDeskTest, WhatTheKeeperRefusesIsSaid) {
    {
        RefusingKeeper keeper(EBUSY);
        EXPECT_THAT(ask(Kept(keeper.link())), HasSubstr("an upgrade is under way already"));
    }
    RefusingKeeper keeper(EMFILE);
    EXPECT_THAT(ask(Kept(keeper.link())), HasSubstr("the keeper refuses: Too many open files"));
}

}  // namespace
}  // namespace barcuda
