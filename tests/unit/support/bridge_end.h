// SPDX-License-Identifier: Apache-2.0
// bridge_end.h: the bridge's end of a worker's link, and what of a worker carries its client, in one process.
#pragma once
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <utility>
#include <vector>

#include "host-bridge/between/conveyor.h"
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

    void hand(carrying::Which part, int file = -1, bool ahead = false, std::uint64_t order = 0) const {
        carrying::Hand hand;
        hand.number = order;
        hand.part = part;
        hand.ahead = ahead ? 1 : 0;
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

// The other side of a worker's conveyor: takes its frames into a file, one behind the other, or fills it with them.
class MemoryRelay {
  public:
    MemoryRelay() { EXPECT_EQ("", Conveyor::make(slots, ends_).text()); }
    ~MemoryRelay() { join(); }
    MemoryRelay(const MemoryRelay&) = delete;
    // The worker's descriptors. They are the caller's.
    File take_socket(bool worker_fills) { return std::exchange(worker_fills ? ends_.filler : ends_.taker, {}); }
    const File& room() const { return ends_.room; }

    void into(const File& file) {
        EXPECT_EQ("", conveyor_.open(std::move(ends_.taker), ends_.room).text());
        thread_ = std::thread([this, fd = file.fd()] {
            for (Conveyor::Word word; conveyor_.hear(word) && word.slot != Conveyor::Word::end;) {
                const auto bytes = conveyor_.slot(word.slot).first(word.bytes);
                const std::uint64_t count = bytes.size();
                EXPECT_EQ(static_cast<ssize_t>(sizeof count), write(fd, &count, sizeof count));
                EXPECT_EQ(static_cast<ssize_t>(count), write(fd, bytes.data(), bytes.size()));
                conveyor_.say({word.slot, 0});
            }
        });
    }
    // In another process: what it maps must not be where the client's memory was.
    void from(const File& file) {
        child_ = fork();
        if (child_ == 0) {
            ends_.taker = File();
            feed(file.fd());
            _exit(0);
        }
        ends_.filler = File();
    }
    void join() {
        if (thread_.joinable()) thread_.join();
        if (child_ > 0) waitpid(std::exchange(child_, -1), nullptr, 0);
    }

  private:
    void feed(int fd) {
        if (conveyor_.open(std::move(ends_.filler), ends_.room)) return;
        std::vector<bool> free(slots, true);
        Conveyor::Word word;
        std::uint64_t count = 0;
        for (std::uint32_t slot = 0; ::read(fd, &count, sizeof count) == sizeof count; slot = (slot + 1) % slots) {
            while (!free[slot]) {
                if (!conveyor_.hear(word)) return;
                free[word.slot] = true;
            }
            free[slot] = false;
            if (::read(fd, conveyor_.slot(slot).data(), count) != static_cast<ssize_t>(count)) return;
            conveyor_.say({slot, static_cast<std::uint32_t>(count)});
        }
        conveyor_.say({});
    }

    static constexpr std::uint32_t slots = 4;
    pid_t child_ = -1;
    Conveyor::Ends ends_;
    Conveyor conveyor_;
    std::thread thread_;
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
