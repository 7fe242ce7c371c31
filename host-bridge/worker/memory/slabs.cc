// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/worker/memory/slabs.h"

#include <algorithm>
#include <iterator>

namespace barcuda {

bool Slabs::Slab::take(std::uint64_t bytes, std::uint64_t& offset) {
    if (bytes > room) return false;
    const auto place = holes.take(bytes);
    if (!place) {
        room = bytes - unit;
        return false;
    }
    used[offset = *place] = bytes;
    return true;
}

bool Slabs::Slab::take_at(std::uint64_t offset, std::uint64_t bytes) {
    if (!holes.take_at(offset, bytes)) return false;
    used[offset] = bytes;
    return true;
}

void Slabs::Slab::give(std::uint64_t offset) {
    room = std::max(room, holes.give(offset, used.extract(offset).mapped()));
}

CUresult Slabs::allocate_at(std::uint64_t address, std::uint64_t bytes, const Pieces::Devices& devices) {
    std::uint64_t start = address / block_granule * block_granule;
    if (!slabs_.contains(start)) {
        if (CUresult r = blocks_.make(device_, block_granule, devices, start, start); r != CUDA_SUCCESS) return r;
        slabs_.try_emplace(start);
    }
    return slabs_.at(start).take_at(address - start, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Slabs::allocate(std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address,
                         std::uint64_t wish) {
    const std::uint64_t whole = (bytes + unit - 1) / unit * unit;
    if (wish != 0) return allocate_at(address = wish, whole, devices);
    std::uint64_t offset = 0;
    for (auto& [start, slab] : slabs_)
        if (slab.take(whole, offset)) {
            address = start + offset;
            return CUDA_SUCCESS;
        }
    std::uint64_t start = 0;
    if (CUresult r = blocks_.make(device_, block_granule, devices, start); r != CUDA_SUCCESS) return r;
    slabs_[start].take(whole, offset);
    address = start + offset;
    return CUDA_SUCCESS;
}

void Slabs::free(std::uint64_t address) {
    const auto its = std::prev(slabs_.upper_bound(address));
    its->second.give(address - its->first);
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
