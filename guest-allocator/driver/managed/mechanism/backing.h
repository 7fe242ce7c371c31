// SPDX-License-Identifier: Apache-2.0
// backing.h: the memory of a range on both sides: how it is made and removed.
#pragma once
#include <cuda.h>

#include <cstddef>

#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// Both homes of a new range of whole units, of the current context, which the CPU may not touch yet. Null: the address, the
// device's memory or the second mapping cannot be had.
Home* make_home(std::size_t bytes) noexcept;
// Both are given back; nobody finds or uses it any more.
void remove_home(Home* home) noexcept;
// A device has got its first context: it reaches all homes from now on.
void let_reach(CUdevice device, const Home& home) noexcept;

// A run of pages of the region, mapped at the home's address. False: the region has no room, or the mapping cannot be had.
bool map_here(Home& home) noexcept;
void unmap_here(Home& home) noexcept;

}  // namespace barcuda::guest::managed
