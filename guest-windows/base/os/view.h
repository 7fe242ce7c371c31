// SPDX-License-Identifier: Apache-2.0
// view.h: a region as Windows gives it to a process: all of it, once, at an address that the system chooses. So does
// virtio-win's driver with the memory of an ivshmem device, and so is a file treated, whose parts could be mapped.
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::os {

struct View {
    int file = -1;
    char* base = nullptr;
    std::uint64_t bytes = 0;

    bool holds(const void* p) const { return static_cast<std::uint64_t>(static_cast<const char*>(p) - base) < bytes; }
};

// Maps it, and keeps it until the process ends: what lies in it may be in use until then. Returns 0 or an errno.
int map_view(int file, View& view) noexcept;
// The one that has been made of this file; null: none.
const View* view_of(int file) noexcept;
const View* view_with(const void* address) noexcept;

}  // namespace barcuda::os
