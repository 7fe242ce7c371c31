// SPDX-License-Identifier: Apache-2.0
// bridge_end.h: the bridge's end of a worker's link, and what of a worker carries its client, in one process.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>
#include "host-bridge/worker/leave.h"
#include "host-bridge/worker/supply.h"
#include "tests/unit/support/channel_memory.h"

namespace barcuda {

struct BridgeEnd {
    int ends[2] = {-1, -1};
    BridgeEnd() { EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)); }
    ~BridgeEnd() {
        for (const int end : ends) close(end);
    }
    BridgeEnd(const BridgeEnd&) = delete;

    void hand(carrying::Which part, int file = -1) const {
        carrying::Hand hand;
        hand.part = part;
        EXPECT_TRUE(send_message(ends[0], &hand, sizeof hand, file));
    }
    template <class Request> Message<Request> hear() const {
        Message<Request> message;
        EXPECT_EQ(static_cast<ssize_t>(sizeof message), recv(ends[0], &message, sizeof message, 0));
        EXPECT_EQ(message.form, form_of<Request>());
        return message;
    }
    template <class Request> void answer(Answer<Request> answer, std::uint64_t number) const {
        answer.number = number;
        EXPECT_TRUE(send_message(ends[0], &answer, sizeof answer));
    }
};

// Of a worker, in front of that session: what Leave needs.
struct Station : BridgeEnd {
    BridgeLink link{ends[1]};
    ChannelMemory memory = channel_memory();
    Channel channel = [this] {
        Channel its;
        its.memory = memory.get();
        return its;
    }();
    CarryPlace place{};
    ChannelReader reader{channel};
    Supply supply;
    Leave leave;
    explicit Station(Session& session)
        : supply(channel.supply(), Bell(channel, -1), link, session.extents(), Preparation()),
          leave(session, reader, supply, link, place) {}

    void order(carrying::Wanted wanted) {
        place.wanted = wanted;
        ++place.order;
        while (place.done != place.order) leave.look();
    }
};

}  // namespace barcuda
