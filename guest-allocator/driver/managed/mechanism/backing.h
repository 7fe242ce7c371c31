// SPDX-License-Identifier: Apache-2.0
// backing.h: the memory of a range on both sides: how it is made and removed.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <memory>

#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// A new range of whole units for the current context, with memory on both sides; the CPU may not touch it yet. Null:
// the address, the device's memory or the second mapping is not available.
std::unique_ptr<Range> make_range(std::size_t bytes) noexcept;
// Releases both sides; no thread finds or uses the range any more.
void release(std::unique_ptr<Range> range) noexcept;
// A device has got its first context: it reaches the range from now on.
void let_reach(CUdevice device, const Range& range) noexcept;

// Pages of the region are mapped at the range's address. False: the region has no room, or the mapping is not
// available.
bool map_host_side(Range& range) noexcept;
void unmap_host_side(Range& range) noexcept;

}  // namespace barcuda::guest::managed
