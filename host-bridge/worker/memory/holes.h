// SPDX-License-Identifier: Apache-2.0
// holes.h: free places of a run, of which the lowest that is large enough is taken first. So the same history gives the
// same places.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace barcuda {

class Holes {
  public:
    Holes() = default;
    Holes(std::uint64_t at, std::uint64_t bytes) { holes_[at] = bytes; }

    std::optional<std::uint64_t> take(std::uint64_t bytes) {
        const auto hole = std::ranges::find_if(holes_, [&](const auto& h) { return h.second >= bytes; });
        if (hole == holes_.end()) return {};
        const auto [at, room] = *hole;
        holes_.erase(hole);
        if (room > bytes) holes_[at + bytes] = room - bytes;
        return at;
    }
    // This place. False: some of it is not free.
    bool take_at(std::uint64_t at, std::uint64_t bytes) {
        const auto behind = holes_.upper_bound(at);
        if (behind == holes_.begin()) return false;
        const auto hole = std::prev(behind);
        const auto [start, room] = *hole;
        const std::uint64_t before = at - start;
        if (before > room || bytes > room - before) return false;
        holes_.erase(hole);
        if (before != 0) holes_[start] = before;
        if (room > before + bytes) holes_[at + bytes] = room - before - bytes;
        return true;
    }
    // Returns the size of the hole that it is part of now.
    std::uint64_t give(std::uint64_t at, std::uint64_t bytes) {
        const auto next = holes_.lower_bound(at);
        if (next != holes_.begin())
            if (const auto before = std::prev(next); before->first + before->second == at) {
                at = before->first;
                bytes += before->second;
                holes_.erase(before);
            }
        if (next != holes_.end() && next->first == at + bytes) {
            bytes += next->second;
            holes_.erase(next);
        }
        return holes_[at] = bytes;
    }
    bool is_one_of(std::uint64_t bytes) const { return holes_.size() == 1 && holes_.begin()->second == bytes; }

  private:
    std::map<std::uint64_t, std::uint64_t> holes_;  // from -> bytes; neighbours are merged
};

}  // namespace barcuda
