// SPDX-License-Identifier: Apache-2.0
// frames.h: a large part of a suspended VM: its bytes compressed in frames of 2 MiB each, with a table of them at the
// end: zstd's seekable format, so `zstd -d` makes the same bytes of the file. Several threads compress, and several
// threads can read frames at once. A frame of zeros is the same bytes everywhere, so a reader knows it without reading
// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/failure.h"
#include "host-bridge/suspended/digest.h"

namespace barcuda {

constexpr std::size_t frame_bytes = 2 << 20;

class FrameWriter {
  public:
    using Sink = std::function<Failure(std::span<const std::byte>)>;
    // Frames that the reader has already, by their number.
    struct Known {
        // Several threads ask. The length of the compressed frame with these bytes; 0: the reader lacks it.
        std::function<std::uint32_t(std::size_t frame, std::span<const std::byte> bytes)> has;
        std::function<Failure(std::size_t frame)> again;  // in place of writing it
    };
    explicit FrameWriter(Sink sink, Known known = {});
    // Writes an empty file, which stays the caller's.
    explicit FrameWriter(int file);
    Failure add(std::span<const std::byte> bytes);
    Failure add_zeros(std::uint64_t bytes);
    // Writes what is left, and the table.
    Failure finish();

    std::uint64_t bytes() const { return bytes_; }      // that were added
    std::uint64_t written() const { return written_; }  // of the file
    // Of what the sink has got: what the reader had is not in it.
    const Digest& digest() const { return digest_; }

  private:
    struct Frame {
        std::uint32_t packed, bytes;
    };
    Failure flush();
    Failure write(std::span<const std::byte> packed);
    Failure write_frame(std::span<const std::byte> packed, std::size_t bytes);

    const Sink sink_;
    const Known known_;
    const std::size_t threads_;
    std::vector<std::vector<std::byte>> full_;  // to be compressed together
    std::vector<std::byte> begun_;
    std::vector<Frame> frames_;
    std::uint64_t bytes_ = 0, written_ = 0;
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

// ---- files with holes
// All bytes of a file, `size` of them; what was never written to is not read.
Failure pack_file(int from, std::uint64_t size, FrameWriter& to);
// Writes all frames into a file, in place: a mapping of it stays what it was. Pages of zeros become holes, where the
// file can have them.
Failure unpack_file(const FrameReader& from, int to);

}  // namespace barcuda
