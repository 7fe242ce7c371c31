// SPDX-License-Identifier: Apache-2.0
// frames.h: a large part of a suspended VM: its bytes compressed in frames of at most 2 MiB, with a table of them at
// the end: zstd's seekable format, so `zstd -d` makes the same bytes of the file. The threads of a crew (crew.h) read,
// compress and write frames at once, and several threads can read them. A frame of zeros is the same bytes everywhere,
// so a reader knows it without reading it. A frame whose bytes hardly compress holds them as they are: to compress
// numbers that a GPU has computed takes longer than any disk.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/failure.h"
#include "host-bridge/suspended/crew.h"
#include "host-bridge/suspended/digest.h"

namespace barcuda {

constexpr std::size_t frame_bytes = 2 << 20;
constexpr std::size_t most_packed = frame_bytes + (64 << 10);  // however badly a frame compresses

// What the threads spent on a part, all of them together, in seconds of processors.
struct FrameTimes {
    double read = 0, packed = 0, hashed = 0, written = 0;
    FrameTimes& operator+=(const FrameTimes& other);
};

class FrameWriter {
  public:
    using Sink = std::function<Failure(std::span<const std::byte>)>;
    // A sink that several threads use at once, each for another place.
    using SinkAt = std::function<Failure(std::uint64_t at, std::span<const std::byte>)>;
    // Frames that the reader has already, by their number.
    struct Known {
        // Several threads ask. The length of the compressed frame with these bytes; 0: the reader lacks it.
        std::function<std::uint32_t(std::size_t frame, std::span<const std::byte> bytes)> has;
        std::function<Failure(std::size_t frame)> again;  // in place of writing it
    };
    // Where a thread gets the bytes of a frame: `bytes` becomes `room` with them, or what has them. `release`: they are
    // not needed any more. Both are called once, by any thread. What a function of the writer's throws in a thread is
    // the writer's failure.
    struct Source {
        std::function<Failure(std::span<std::byte> room, std::span<const std::byte>& bytes)> get;
        std::function<void()> release{};
    };

    // Threads of that crew, or of its own, do the work. `at`: in place of the sink, which gets all in its order.
    explicit FrameWriter(Sink sink, Known known = {}, SinkAt at = {}, std::shared_ptr<Crew> crew = {});
    // Writes an empty file, which stays the caller's.
    explicit FrameWriter(int file);
    ~FrameWriter();
    FrameWriter(const FrameWriter&) = delete;

    // ---- by one thread
    Failure add(std::span<const std::byte> bytes);
    Failure add_zeros(std::uint64_t bytes);
    // A frame of `bytes`, behind what was added before. Waits while too many are on their way.
    Failure add_frame(std::size_t bytes, const Source& source);
    // Writes what is left, and the table.
    Failure finish();

    std::uint64_t bytes() const { return bytes_; }  // that were added
    // ---- behind finish()
    std::uint64_t written() const { return at_; }  // of the file
    // Of what the sink has got: what the reader had is not in it.
    const Digest& digest() const { return digest_; }
    FrameTimes times() const;

  private:
    struct Frame {
        std::uint32_t packed, bytes;
    };
    using Buffer = std::unique_ptr<std::byte[]>;
    struct Packed {
        enum class Kind { bytes, zeros, again } kind = Kind::bytes;
        Buffer buffer{};
        std::size_t bytes = 0;
        std::size_t number = 0;
        std::uint64_t at = 0;
    };
    struct Buffers {  // that were used before: their pages are there
        std::vector<Buffer> free;
        Buffer take(std::size_t bytes);
    };
    Failure pass_begun();
    Failure begin_frame(std::size_t bytes, std::size_t& number);
    void work(std::size_t number, std::size_t bytes, const Source& source);
    Failure pack(std::size_t number, std::size_t bytes, const Source& source, Packed& packed);
    void settle(Packed packed);
    void end(Packed& packed);
    void fail(Failure failure);
    std::size_t most_on_their_way() const { return 3 * crew_->size(); }
    Failure pass_on(const Packed& packed);  // in their order
    Failure write(const Packed& packed);

    const Sink sink_;
    const Known known_;
    const SinkAt sink_at_;
    const std::shared_ptr<Crew> crew_;
    Buffer begun_;
    std::size_t begun_bytes_ = 0;
    std::uint64_t bytes_ = 0;
    enum Stage { reading, packing, hashing, writing, stages };
    std::array<std::atomic<std::uint64_t>, stages> nanoseconds_{};
    struct Timed;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Frame> frames_;
    std::size_t on_their_way_ = 0, next_ = 0;  // the frame that is passed on next
    bool passing_ = false;
    // Each has room for all that are on their way: a thread that has packed a frame asks for no memory.
    std::vector<std::optional<Packed>> ready_;  // to be passed on, each at its number modulo their size
    std::vector<Packed> to_write_;              // in the order in which they were passed on
    Buffers inputs_, outputs_;
    Failure failure_;
    std::uint64_t at_ = 0;
    Digest digest_;
};

class FrameReader {
  public:
    // Reads the table of that file, which stays the caller's.
    Failure open(int file);

    std::uint64_t bytes() const { return bytes_; }  // of what was compressed
    std::size_t count() const { return frames_.size(); }
    std::uint64_t offset(std::size_t frame) const { return frames_[frame].at; }  // of its bytes
    std::size_t size(std::size_t frame) const { return frames_[frame].bytes; }
    // Several threads may call it. `into` has that frame's size.
    Failure read(std::size_t frame, std::span<std::byte> into) const;
    // It is known to be zeros, without reading more than a few bytes of it.
    bool is_zeros(std::size_t frame) const;

  private:
    struct Frame {
        std::uint64_t at, packed_at;
        std::uint32_t packed, bytes;
    };
    int file_ = -1;
    std::vector<Frame> frames_;
    std::uint64_t bytes_ = 0;
};

// Calls `take` with the bytes of each frame, in their order. Several threads decompress ahead of it; at most twice as
// many frames as threads are in memory.
Failure each_frame(const FrameReader& from, const std::function<Failure(std::span<const std::byte>)>& take);

}  // namespace barcuda
