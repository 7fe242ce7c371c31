// SPDX-License-Identifier: Apache-2.0
// channel.h: the reader of the command queue. A command is copied out of the region once, completely, before any of it
// is checked; its reply is written there once, completely, when it is final. What the guest does to the bytes in between
// does not matter.
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
    explicit ChannelReader(const Channel& channel, const Bell& bell = {});

    struct Command {
        virtqueue::Chain chain;
        RequestHead head;
        std::span<const std::byte> body;  // the host's own copy, valid until the next call of next()
        bool wants_reply() const { return chain.count == 2; }
    };

    // The next command, if there is one. Check lie() when there is none.
    std::optional<Command> next();
    const std::string& lie() const { return lie_; }
    // Of the client, in its guest's eyes. To name it, no more.
    std::uint32_t pid() const { return observe(channel_.client().pid); }
    // Of the rows by which the client numbers its commands; once there is one.
    std::uint64_t rows_hash() const { return observe(channel_.client().rows_hash); }

    // Room for the values of a reply, in the host's own memory.
    std::span<std::byte> reply_room(const Command& command);
    // Ends the command: sends `result` and the first `bytes` of the reply room, if the guest wants to know.
    void answer(const Command& command, CUresult result, std::size_t bytes);

    // Shows the guest what has been answered. Posted commands are shown in batches.
    void flush() {
        if (queue_.flush()) bell_.wake();
    }
    // After next() has found nothing for a while, and after flush(). The first call asks the client to kick, and
    // returns, so that the caller looks once more; further calls sleep until a kick, or for `nanoseconds`.
    void sleep(std::uint64_t nanoseconds);

  private:
    void awake();
    // Where the guest says that a buffer lies; null unless it is wholly within the channel's command memory.
    std::byte* locate(const virtqueue::Buffer& buffer) const;

    const Channel channel_;
    virtqueue::Device<> queue_;
    Bell bell_;
    bool announced_ = false;  // the client is asked to kick
    bool overslept_ = false;  // the last sleep ended by the clock
    unsigned unkicked_ = 0;   // commands that were there after such a sleep, with no kick
    unsigned vain_ = 0;       // kicks in a row with no command
    std::uint32_t seen_ = 0;  // kicks, before the last look
    std::unique_ptr<std::byte[]> copy_, reply_;
    std::string lie_;
};

}  // namespace barcuda
