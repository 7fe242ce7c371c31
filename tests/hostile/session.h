// SPDX-License-Identifier: Apache-2.0
// session.h: a channel of a region, opened as the guest library does it, to send what the library would not.
// One thread posts and collects; several chains are under way at a time, each in a part of the command memory that is
// its own. Nothing here waits without an end: a worker that does not answer is told apart from one that has ended.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "guest-allocator/client/bell.h"
#include "shm-device/queue/virtqueue.h"
#include "shm-device/region/region.h"
#include "tests/hostile/stage.h"

namespace barcuda::hostile {

// What a client may say of itself before its first command.
struct Claims {
    std::optional<barcuda_u32> bell = {};          // not the one that it has
    std::optional<barcuda_u64> rows_hash = {};     // not that of the rows
    std::optional<unsigned char> device = {};      // not its first device's number
    std::optional<barcuda_u32> device_count = {};  // not 1
    bool kicks = true;
};

class Session : public Stage {
  public:
    static constexpr unsigned depth = 16;  // chains under way
    static constexpr std::size_t room = BARCUDA_COMMANDS_SIZE / depth / 8 * 8;

    explicit Session(unsigned patience) : patience_(patience) {}
    ~Session() override { close(); }
    Session(const Session&) = delete;

    // "": a worker serves it, or will; else why not.
    std::string open(const std::string& region, const Claims& claims = {});
    void close();

    Region& region() { return region_; }
    Channel& channel() { return channel_; }
    barcuda_state state() const { return static_cast<barcuda_state>(observe(channel_.status().state)); }
    bool ended() const { return state() > BARCUDA_STATE_READY; }
    std::string message() const;
    RowNumber number_of(Op op) const override { return numbers_[static_cast<std::size_t>(op)]; }

    // The extent of its own, BARCUDA_GRANULE bytes at least, mapped; none: the host has none left, or does not answer.
    std::span<std::byte> extent(std::uint64_t bytes) override;
    std::uint64_t offset_of(const void* p) const override { return region_.offset_of(p); }
    std::uint64_t channel_offset() const override { return channel_.offset; }

    bool can_post() const { return posted() - collected_ < depth && queue_->can_post(2); }
    std::uint64_t posted() const { return queue_->posted(); }
    std::span<std::byte> request_memory() const override {
        return place(posted());
    }  // of the chain that is posted next
    // The request lies in request_memory(); behind it is room for the reply. 0: no thread waits for one.
    void post(std::size_t request_bytes, std::size_t reply_bytes);
    // Chains in the queue, whatever they say.
    void post_raw(std::span<const virtqueue::Buffer> chain);

    enum class Found { reply, nothing, stuck, ended };
    // Looks for the oldest chain's end, until it has ended or `patience` seconds have gone by.
    Found await();
    // The same, once. A reply's bytes are valid until collect().
    Found look();
    std::span<const std::byte> reply() const;
    void collect() { ++collected_; }
    std::uint64_t collected() const { return collected_; }
    bool empty() const { return collected_ == posted(); }

    void kick();
    // Runs the "functions of the program" that the GPU waits for: they return at once.
    void answer_calls();

  private:
    std::span<std::byte> place(std::uint64_t sequence) const {
        return {reinterpret_cast<std::byte*>(channel_.commands()) + sequence % depth * room, room};
    }
    struct Sent {
        std::uint32_t request = 0, reply = 0;
    };

    const unsigned patience_;
    Region region_;
    Channel channel_;
    guest::Bell bell_;
    Claims claims_;
    std::array<RowNumber, static_cast<std::size_t>(Op::count)> numbers_{};
    std::optional<virtqueue::Driver<>> queue_;
    std::array<Sent, depth> sent_{};
    std::uint64_t collected_ = 0, used_ = 0;
    std::array<std::pair<std::uint64_t, std::uint64_t>, 64> extents_{};  // offset, bytes
    std::size_t extent_count_ = 0;
};

}  // namespace barcuda::hostile
