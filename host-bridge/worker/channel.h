// SPDX-License-Identifier: Apache-2.0
// channel.h: the reader of the command queue. It copies a command out of the region once, completely, before any check,
// and writes the reply there once, completely, when it is final. What the guest does to the bytes in between does not
// matter.
#pragma once
#include <cuda.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "host-bridge/between/bell.h"
#include "shm-device/queue/packet.h"
#include "shm-device/queue/sync.h"
#include "shm-device/queue/virtqueue.h"
#include "shm-device/region/region.h"

namespace barcuda {

class ChannelReader {
  public:
    using State = virtqueue::Device<>::State;

    explicit ChannelReader(const Channel& channel, const Bell& bell = {}, const State& state = {});

    // Every command that was taken has been shown as done.
    bool quiet() const { return queue_.quiet(); }
    // Needs quiet(). (How client and worker wake each other is found out again.)
    State state() const { return queue_.state(); }

    struct Command {
        virtqueue::Chain chain;
        RequestHead head;
        std::span<const std::byte> body;  // the host's own copy, valid until the next call of next()
        std::uint64_t call = 0;           // the number of the client's call that gave it; 0: none
        bool wants_reply() const { return chain.count == 2; }
    };

    // The next command, if there is one. If there is none, check lie().
    std::optional<Command> next();
    const std::string& lie() const { return lie_; }
    // The client's pid in its guest. Used only in messages.
    std::uint32_t pid() const { return observe(channel_.client().pid); }
    // Hash of the rows by which the client numbers its commands; valid once there is a command.
    std::uint64_t rows_hash() const { return observe(channel_.client().rows_hash); }

    // Room for the values of a reply, in the host's memory.
    std::span<std::byte> reply_room(const Command& command);
    // Ends the command: if the guest wants a reply, sends `result` and the first `bytes` of the reply room.
    void answer(const Command& command, CUresult result, std::size_t bytes);

    // The last command that was taken has done nothing yet: this worker, or the next one, takes it again.
    void put_back(const Command& command) {
        flush();
        queue_.put_back(command.chain);
    }

    // Shows the guest the completed commands. Posted commands are shown in batches.
    void flush() {
        if (queue_.flush()) bell_.wake();
    }
    // Called when next() has found nothing for some time, after flush(). The first call asks the client to kick and
    // returns, so that the caller looks once more. Further calls sleep until a kick, for at most `nanoseconds`.
    void sleep(std::uint64_t nanoseconds);

  private:
    void awake();
    // The address of a guest's buffer; null unless all of it is in the channel's command memory.
    std::byte* locate(const virtqueue::Buffer& buffer) const;

    const Channel channel_;
    virtqueue::Device<> queue_;
    Bell bell_;
    bool announced_ = false;  // the client has been asked to kick
    bool overslept_ = false;  // the last sleep ended by the clock
    unsigned unkicked_ = 0;   // commands found after such a sleep without a kick
    unsigned vain_ = 0;       // kicks in a row with no command
    std::uint32_t seen_ = 0;  // kicks before the last look
    std::unique_ptr<std::byte[]> copy_, reply_;
    std::string lie_;
};

}  // namespace barcuda
