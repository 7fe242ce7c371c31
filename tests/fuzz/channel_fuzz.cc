// SPDX-License-Identifier: Apache-2.0
// channel_fuzz: a guest that lies as well as it can, against the worker's whole way in: the queue, the one copy, the
// kinds' checks, the session. The driver below only watches (fake_driver.h) and aborts when it is given a handle that
// it never gave. The channel's memory is filled with fresh bytes before each command is taken, and again before it is
// answered: nothing that was there before may be relied on.
#include <algorithm>
#include <bit>
#include <cstring>

#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/execute.h"
#include "tests/unit/support/channel_memory.h"
#include "tests/unit/support/fake_driver.h"

namespace barcuda {
namespace {

class Input {
  public:
    Input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
    bool empty() const { return left_ == 0; }
    template <class T> T take() {
        T value{};
        fill(&value, sizeof value);
        return value;
    }
    void fill(void* to, std::size_t n) {
        n = std::min(n, left_);
        if (n != 0) std::memcpy(to, at_, n);
        at_ += n;
        left_ -= n;
    }

  private:
    const std::uint8_t* at_;
    std::size_t left_;
};

// Commands of the process's own business: its output, the device's reset.
bool own_business(std::uint32_t op) {
    return op == static_cast<std::uint32_t>(Op::take_output) ||
           op == static_cast<std::uint32_t>(Op::cuDevicePrimaryCtxReset_v2);
}

// All commands there are, and some beyond. (A power of two: a corpus keeps its meaning when rows are added.)
constexpr std::uint32_t numbers = std::bit_ceil(static_cast<std::uint32_t>(Op::count) + 1);
static_assert(numbers <= 1 << 15, "a command's number is taken from 15 bits");

// Requests that are well framed, so that the fuzzer's effort goes into their values.
void requests(Input in) {
    fake::Ground ground;
    SessionScope scope(ground.session);
    std::vector<std::byte> reply(1 << 20);
    while (!in.empty()) {
        const std::uint32_t word = in.take<std::uint16_t>();
        const std::uint32_t op = (word & 0x7fff) % numbers;
        const bool answered = !(word & 0x8000);
        std::vector<std::byte> body(8 * (in.take<std::uint8_t>() % 64));
        in.fill(body.data(), body.size());
        if (own_business(op)) continue;
        Writer w(reply);
        if (perform(ground.session, {op, 0}, body, answered, w).lie) return;
    }
}

// The queue and the copy: descriptors and requests of any bytes.
void channel(Input in) {
    static const ChannelMemory memory = channel_memory();
    std::memset(memory.get(), 0, BARCUDA_CHANNEL_SIZE);
    Channel c;
    c.memory = memory.get();
    c.offset = BARCUDA_CHANNELS_OFFSET;
    fake::Ground ground;
    SessionScope scope(ground.session);
    ChannelReader reader(c);
    char* const ring = c.memory + BARCUDA_RING_OFFSET;
    for (unsigned slot = 0; !in.empty() && reader.lie().empty(); ++slot) {
        in.fill(ring + slot * 16 % (BARCUDA_QUEUE_SIZE * 16),
                32 - 16 * (slot % BARCUDA_QUEUE_SIZE == BARCUDA_QUEUE_SIZE - 1));
        in.fill(c.commands(), 64);
        const auto command = reader.next();
        if (!command) continue;
        std::memset(c.commands(), static_cast<int>(in.take<std::uint8_t>()), 256);  // the copy is what counts
        Writer reply(reader.reply_room(*command));
        if (own_business(command->head.op)) return;
        const Verdict v = perform(ground.session, command->head, command->body, command->wants_reply(), reply);
        if (v.lie) return;
        reader.answer(*command, v.result, v.ok() ? reply.used() : 0);
    }
}

}  // namespace
}  // namespace barcuda

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const barcuda::Input in(data + 1, size - 1);
    if (data[0] & 1) barcuda::channel(in);
    else barcuda::requests(in);
    return 0;
}
