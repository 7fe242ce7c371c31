// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/slabs.h"

#include <algorithm>
#include <iterator>

namespace barcuda {

bool Slabs::Slab::take(std::uint32_t bytes, std::uint32_t& offset) {
    if (bytes > room) return false;
    const auto hole = std::ranges::find_if(holes, [&](const auto& h) { return h.second >= bytes; });
    if (hole == holes.end()) {
        room = bytes - unit;
        return false;
    }
    const std::uint32_t its = hole->second;
    offset = hole->first;
    holes.erase(hole);
    if (its > bytes) holes[offset + bytes] = its - bytes;
    used[offset] = bytes;
    return true;
}

void Slabs::Slab::give(std::uint32_t offset) {
    std::uint32_t bytes = used.extract(offset).mapped();
    const auto next = holes.lower_bound(offset);
    if (next != holes.begin())
        if (const auto before = std::prev(next); before->first + before->second == offset) {
            offset = before->first;
            bytes += before->second;
            holes.erase(before);
        }
    if (next != holes.end() && next->first == offset + bytes) {
        bytes += next->second;
        holes.erase(next);
    }
    holes[offset] = bytes;
    room = std::max(room, bytes);
}

CUresult Slabs::allocate(std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address) {
    const auto whole = static_cast<std::uint32_t>((bytes + unit - 1) / unit * unit);
    std::uint32_t offset = 0;
    for (auto& [start, slab] : slabs_)
        if (slab.take(whole, offset)) {
            address = start + offset;
            return CUDA_SUCCESS;
        }
    std::uint64_t start = 0;
    if (CUresult r = blocks_.make(device_, block_granule, devices, start); r != CUDA_SUCCESS) return r;
    Slab& fresh = slabs_[start];
    fresh.holes[0] = fresh.room = block_granule;
    fresh.take(whole, offset);
    address = start + offset;
    return CUDA_SUCCESS;
}

void Slabs::free(std::uint64_t address) {
    const auto its = std::prev(slabs_.upper_bound(address));
    its->second.give(static_cast<std::uint32_t>(address - its->first));
    if (!its->second.used.empty()) return;
    // The lowest stays, where the next allocation looks first.
    const auto is_empty = [](const auto& s) { return s.second.used.empty(); };
    if (std::ranges::count_if(slabs_, is_empty) < 2) return;
    auto last = slabs_.end();
    while (!is_empty(*--last)) {}
    blocks_.end(last->first);
    slabs_.erase(last);
}

bool Slabs::shrink() {
    const auto empty = std::ranges::find_if(slabs_, [](const auto& s) { return s.second.used.empty(); });
    if (empty == slabs_.end()) return false;
    blocks_.end(empty->first);
    slabs_.erase(empty);
    return true;
}

void Slabs::end() {
    for (const auto& [start, slab] : slabs_) blocks_.end(start);
    slabs_.clear();
}

}  // namespace barcuda
