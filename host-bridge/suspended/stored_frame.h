// SPDX-License-Identifier: Apache-2.0
// stored_frame.h: a frame of zstd's whose bytes are as they are: a head, and blocks of at most 128 KiB, each behind
// three bytes; the checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace barcuda {

class StoredFrame {
  public:
    // The length of a frame that holds `bytes`.
    static constexpr std::size_t length(std::size_t bytes) {
        return head + bytes + (bytes + block - 1) / block * block_head + checksum;
    }
    // Returns its length; `to` has room for it.
    static std::size_t write(std::span<const std::byte> bytes, std::byte* to);
    // Reads such a frame from there to where its bytes go. False: it is another one, or damaged.
    static bool read(int file, std::uint64_t at, std::span<std::byte> into);

  private:
    static constexpr std::size_t block = 128 << 10, block_head = 3, head = 9, checksum = 4;
    static void put_head(std::byte* to, std::size_t bytes);
    static void put_block_head(std::byte* to, std::size_t bytes, bool last);
};

}  // namespace barcuda
