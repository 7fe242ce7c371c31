// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/channel.h"

#include "shm-device/queue/wait.h"

#include <cuda.h>
#include <fmt/format.h>

#include "shm-device/queue/wire.h"

namespace barcuda {

ChannelReader::ChannelReader(const Channel& channel, const Bell& bell, const State& state)
    : channel_(channel),
      queue_(virtqueue::in_channel(channel.memory), state),
      bell_(bell),
      // A driver reads as many bytes as a kernel's parameters have, even if the guest sent fewer: the buffer has room
      // for the most after a launch.
      copy_(new std::byte[BARCUDA_COMMANDS_SIZE + wire::most_parameter_bytes]()),
      reply_(new std::byte[BARCUDA_COMMANDS_SIZE]) {
    queue_.disable_kick();  // the worker is awake
}

void ChannelReader::sleep(std::uint64_t nanoseconds) {
    if (announced_) {
        overslept_ = !bell_.sleep(seen_, nanoseconds);
        const std::uint32_t kicks = bell_.kicks();
        // A client that kicks repeatedly but sends nothing gets no more processor time than one that cannot kick.
        if (kicks != seen_ && ++vain_ > 8) Os::nap(2'000'000);
        seen_ = kicks;
    } else {
        announced_ = true;
        seen_ = bell_.kicks();
        queue_.enable_kick();  // the caller then checks again for commands
    }
}

void ChannelReader::awake() {
    // A client that says that it kicks, and does not: its door does not let kicks through. A single case may be chance.
    if (overslept_ && bell_.kicks() == seen_ && ++unkicked_ == 3) bell_.deaf();
    overslept_ = announced_ = false;
    vain_ = 0;
    queue_.disable_kick();
}

std::byte* ChannelReader::locate(const virtqueue::Buffer& buffer) const {
    const std::uint64_t start = channel_.offset + BARCUDA_COMMANDS_OFFSET;
    if (buffer.offset < start || buffer.len > BARCUDA_COMMANDS_SIZE || buffer.offset % 8) return nullptr;
    if (buffer.offset - start > BARCUDA_COMMANDS_SIZE - buffer.len) return nullptr;
    return reinterpret_cast<std::byte*>(channel_.memory + (buffer.offset - channel_.offset));
}

std::optional<ChannelReader::Command> ChannelReader::next() {
    if (!lie_.empty()) return {};
    const auto chain = queue_.next();
    if (!chain) {
        if (queue_.lie() != virtqueue::Lie::none) lie_ = virtqueue::text(queue_.lie());
        return {};
    }
    if (announced_) awake();
    const std::byte* request = locate(chain->request);
    if (!request || (chain->count == 2 && !locate(chain->reply))) {
        lie_ = "a buffer outside the command memory";
        return std::nullopt;
    }
    Command command{*chain, {}, {}, 0};
    if (chain->request.len < sizeof command.head) {
        lie_ = "a request without a head";
        return std::nullopt;
    }
    if (chain->count == 2 && chain->reply.len < sizeof(ReplyHead)) {
        lie_ = "no room for the head of a reply";
        return std::nullopt;
    }
    std::memcpy(copy_.get(), request, chain->request.len);  // the only time it is read
    std::memcpy(&command.head, copy_.get(), sizeof command.head);
    command.body = {copy_.get() + sizeof command.head, chain->request.len - sizeof command.head};
    if (command.head.op & correlated) [[unlikely]] {
        command.head.op &= ~correlated;
        Reader reader(command.body);
        if (!reader.get(command.call)) {
            lie_ = "a request without the number of its call";
            return std::nullopt;
        }
        command.body = command.body.subspan(sizeof command.call);
    }
    return command;
}

std::span<std::byte> ChannelReader::reply_room(const Command& command) {
    const std::size_t room =
        command.wants_reply() ? command.chain.reply.len - sizeof(ReplyHead) : BARCUDA_COMMANDS_SIZE;
    return {reply_.get(), room};
}

void ChannelReader::answer(const Command& command, CUresult result, std::size_t bytes) {
    if (!command.wants_reply()) return queue_.complete(command.chain, 0);
    const ReplyHead head{result, static_cast<std::uint32_t>(bytes)};
    std::byte* to = locate(command.chain.reply);
    std::memcpy(to, &head, sizeof head);
    if (bytes) std::memcpy(to + sizeof head, reply_.get(), bytes);
    queue_.complete(command.chain, static_cast<std::uint32_t>(sizeof head + bytes));
    queue_.flush();
    bell_.wake();
}

}  // namespace barcuda
