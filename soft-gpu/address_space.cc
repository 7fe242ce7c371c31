// SPDX-License-Identifier: Apache-2.0
// address_space.cc: the ranges that kernels may touch.
#include <mutex>

#include "soft-gpu/engine.h"

namespace barcuda::soft {

void AddressSpace::add(Range range) {
    if (range.size == 0) return;
    std::unique_lock lock(mutex_);
    ranges_[range.base] = range;
}

void AddressSpace::remove(std::uintptr_t base) {
    std::unique_lock lock(mutex_);
    ranges_.erase(base);
    generation_.fetch_add(1, std::memory_order_release);
}

AddressSpace::Range AddressSpace::find(std::uintptr_t address) const {
    std::shared_lock lock(mutex_);
    auto at = ranges_.upper_bound(address);
    if (at == ranges_.begin()) return {};
    --at;
    return address - at->second.base < at->second.size ? at->second : Range{};
}

}  // namespace barcuda::soft
