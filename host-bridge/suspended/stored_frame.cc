// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/suspended/stored_frame.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "host-bridge/suspended/digest.h"
#include "host-bridge/suspended/frames.h"

namespace barcuda {

void StoredFrame::put_head(std::byte* to, std::size_t bytes) {
    constexpr std::uint32_t magic = 0xFD2FB528;
    constexpr std::byte one_segment_with_checksum{0xA4};  // and four bytes for its length
    const auto its = static_cast<std::uint32_t>(bytes);
    std::memcpy(to, &magic, sizeof magic);
    to[4] = one_segment_with_checksum;
    std::memcpy(to + 5, &its, sizeof its);
}

// Of a block with bytes as they are.
void StoredFrame::put_block_head(std::byte* to, std::size_t bytes, bool last) {
    const auto its = static_cast<std::uint32_t>(bytes << 3 | (last ? 1 : 0));
    std::memcpy(to, &its, block_head);
}

std::size_t StoredFrame::write(std::span<const std::byte> bytes, std::byte* to) {
    put_head(to, bytes.size());
    std::size_t at = head;
    for (std::size_t done = 0; done < bytes.size();) {
        const std::size_t here = std::min(block, bytes.size() - done);
        put_block_head(to + at, here, done + here == bytes.size());
        std::memcpy(to + at + block_head, bytes.data() + done, here);
        at += block_head + here;
        done += here;
    }
    const std::uint32_t sum = frame_checksum(bytes);
    std::memcpy(to + at, &sum, sizeof sum);
    return at + checksum;
}

bool StoredFrame::read(int file, std::uint64_t at, std::span<std::byte> into) {
    constexpr std::size_t most_blocks = frame_bytes / block;
    std::byte its[head], right_head[head], heads[most_blocks][block_head], right[block_head];
    std::uint32_t sum = 0;
    iovec places[2 + 2 * most_blocks];
    int count = 0;
    places[count++] = {its, sizeof its};
    for (std::size_t done = 0; done < into.size(); done += block) {
        places[count++] = {heads[done / block], block_head};
        places[count++] = {into.data() + done, std::min(block, into.size() - done)};
    }
    places[count++] = {&sum, sizeof sum};
    if (preadv(file, places, count, static_cast<off_t>(at)) != static_cast<ssize_t>(length(into.size()))) return false;
    put_head(right_head, into.size());
    if (std::memcmp(its, right_head, sizeof its) != 0) return false;
    for (std::size_t done = 0; done < into.size(); done += block) {
        const std::size_t here = std::min(block, into.size() - done);
        put_block_head(right, here, done + here == into.size());
        if (std::memcmp(heads[done / block], right, block_head) != 0) return false;
    }
    return sum == frame_checksum(into);
}

}  // namespace barcuda
