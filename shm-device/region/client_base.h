// SPDX-License-Identifier: Apache-2.0
// client_base.h: where a client may have the region that its system has put somewhere (Windows).
#pragma once
#include <cstdint>

#include "base/error.h"
#include "shm-device/windows.h"

namespace barcuda {

// Windows gives addresses in units of 64 KiB. Extents are multiples of more than that, but nothing asks for more of
// where they lie: the heap counts from the region's begin, and aligns what it gives by its address.
constexpr std::uint64_t client_base_unit = 0x10000;

// Can a client have a region of this size there? As check_base(), with another unit. (validate.cc)
Error check_client_base(std::uint64_t base, std::uint64_t size, const char* path, const Windows& windows);

}  // namespace barcuda
