// SPDX-License-Identifier: Apache-2.0
// allocations.h: what programs have allocated, and variables: by addresses.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>

#include "guest-allocator/driver/managed/state/advice.h"

namespace barcuda::guest::managed {

struct Range;

// A range of its own, a part of one, or pinned memory of the region.
struct Allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    unsigned flags = 0;
    CUcontext context = nullptr;
    Range* range = nullptr;  // null: it stays in the region
    Advice advice;
    std::uint64_t code = 0;  // of a variable: the module or library that it is in
    std::uintptr_t end() const { return begin + bytes; }
};

class Allocations {
  public:
    // The one that holds the address.
    Allocation* find(std::uintptr_t address) {
        auto at = by_begin_.upper_bound(address);
        if (at == by_begin_.begin()) return nullptr;
        --at;
        return address - at->first < at->second.bytes ? &at->second : nullptr;
    }
    // The one that begins there.
    Allocation* at(std::uintptr_t begin) {
        const auto at = by_begin_.find(begin);
        return at == by_begin_.end() ? nullptr : &at->second;
    }
    void add(Allocation allocation) { by_begin_[allocation.begin] = std::move(allocation); }
    void remove(std::uintptr_t begin) { by_begin_.erase(begin); }
    template <class Is> void remove_if(Is is) {
        std::erase_if(by_begin_, [&](const auto& entry) { return is(entry.second); });
    }

  private:
    std::map<std::uintptr_t, Allocation> by_begin_;
};

}  // namespace barcuda::guest::managed
