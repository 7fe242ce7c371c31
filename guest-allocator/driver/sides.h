// SPDX-License-Identifier: Apache-2.0
// sides.h: the two sides of a copy of rows or boxes (CUDA_MEMCPY3D): which kind of memory each is, and how the device
// finds it.
#pragma once
#include <cuda.h>

#include <compare>
#include <cstddef>

namespace barcuda::guest {

// One side of a copy. In CUDA_MEMCPY3D the members' names differ by a prefix alone.
struct Side {
    CUmemorytype type = CU_MEMORYTYPE_HOST;  // host, device or array
    std::byte* start = nullptr;              // of host or device memory
    std::size_t pitch = 0, rows = 0, x = 0, y = 0, z = 0;

    std::byte* row(std::size_t i, std::size_t plane) const { return start + ((z + plane) * rows + y + i) * pitch + x; }
    auto operator<=>(const Side&) const = default;
};

// Where both sides of a copy lie; `c` says so in one way afterwards.
CUresult find_sides(CUDA_MEMCPY3D& c, Side& source, Side& target);
void put_source(CUDA_MEMCPY3D& c, const Side& s);
void put_target(CUDA_MEMCPY3D& c, const Side& s);

inline bool is_empty(const CUDA_MEMCPY3D& c) { return c.WidthInBytes == 0 || c.Height == 0 || c.Depth == 0; }

// Of linear memory, from the first byte to the last. The copy is not empty.
struct Bounds {
    const std::byte* first;
    std::size_t bytes;
    Bounds(const Side& s, const CUDA_MEMCPY3D& c)
        : first(s.row(0, 0)),
          bytes(static_cast<std::size_t>(s.row(c.Height - 1, c.Depth - 1) + c.WidthInBytes - first)) {}
};
// Whether the device reaches all of it; `near` is how it does.
bool reaches(const Side& s, const CUDA_MEMCPY3D& c, Side& near);

}  // namespace barcuda::guest
