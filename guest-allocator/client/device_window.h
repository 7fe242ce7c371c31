// SPDX-License-Identifier: Apache-2.0
// device_window.h: the addresses of the GPU's own memory. They must never be those of something else in this process:
// an address alone says what it is (is_device()). So what is free of the window is reserved when the
// connection is made; and what the program had there by then (mimalloc, V8, Go and Java choose such addresses for their
// heaps) is noted down as its own.
#pragma once
#include <cstdint>

#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/ranges.h"
#include "shm-device/windows.h"

namespace barcuda::guest {

struct Taken {
    std::uintptr_t begin, end;
};
// Constant once there is a connection.
extern heap::Ranges<Taken> taken;

// As the region's header says. Constant once there is a connection.
inline constinit Windows windows;

// Reserves [begin, end), as far as no mapping has it, and notes the rest down.
void reserve_window(std::uintptr_t begin, std::uintptr_t end) noexcept;

inline bool is_taken(std::uint64_t address) noexcept { return taken.count() && taken.overlap(address, address + 1); }

// The GPU's own memory has a window of addresses of its own, around the region.
inline bool is_device(std::uint64_t address) {
    return windows.contains(address) && !heap::in_region(reinterpret_cast<const void*>(address), 1) &&
           !is_taken(address);
}
inline bool is_device(const void* p) { return is_device(reinterpret_cast<std::uint64_t>(p)); }

}  // namespace barcuda::guest
