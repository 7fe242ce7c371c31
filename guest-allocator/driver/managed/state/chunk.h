// SPDX-License-Identifier: Apache-2.0
// chunk.h: a range of one unit for small allocations, in pieces as small as CUDA aligns allocations.
#pragma once
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

class Chunk {
  public:
    explicit Chunk(Range* its_range) : range(its_range) {}
    Range* const range;
    // The address of a free run of pieces; 0: there is none that is long enough.
    std::uintptr_t take(std::size_t bytes) {
        const std::size_t wanted = pieces(bytes);
        for (std::size_t at = bytes > last_refused_ ? all : 0, run = 0; at < all; ++at) {
            run = used_[at] ? 0 : run + 1;
            if (run < wanted) continue;
            const std::size_t first = at + 1 - wanted;
            for (std::size_t i = first; i <= at; ++i) used_.set(i);
            return range->begin + first * piece;
        }
        last_refused_ = std::min(last_refused_, bytes - 1);
        return 0;
    }
    void give(std::uintptr_t address, std::size_t bytes) {
        const std::size_t first = (address - range->begin) / piece;
        for (std::size_t i = first; i < first + pieces(bytes); ++i) used_.reset(i);
        last_refused_ = SIZE_MAX;
    }
    bool empty() const { return used_.none(); }

  private:
    static constexpr std::size_t piece = 256, all = unit / piece;
    static std::size_t pieces(std::size_t bytes) { return (bytes + piece - 1) / piece; }
    std::bitset<all> used_;
    std::size_t last_refused_ = SIZE_MAX;  // it has no room for more bytes than this
};

}  // namespace barcuda::guest::managed
