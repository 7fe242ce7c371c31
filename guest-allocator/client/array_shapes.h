// SPDX-License-Identifier: Apache-2.0
// array_shapes.h: how large arrays are, as far as the guest knows: so a copy past an end is refused at the call. A
// handle is used again: each call that gives one ends what was known of it (command.h), and the first copy asks the
// driver.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstddef>

#include "guest-allocator/client/id_table.h"

namespace barcuda::guest {

struct ArrayShape {
    std::size_t row_bytes = 0, rows = 0, slices = 0;

    bool holds(std::size_t x, std::size_t y, std::size_t z, const CUDA_MEMCPY3D& box) const {
        const auto fits = [](std::size_t at, std::size_t n, std::size_t all) { return at <= all && n <= all - at; };
        return fits(x, box.WidthInBytes, row_bytes) && fits(y, box.Height, rows) && fits(z, box.Depth, slices);
    }
};

class ArrayShapes {
  public:
    // False: it is not known.
    bool find(CUarray array, ArrayShape& shape) noexcept {
        const Entry* const e = entries_.of(array);
        shape.row_bytes = e ? e->row_bytes.load(std::memory_order_acquire) : 0;
        if (!shape.row_bytes) return false;
        shape.rows = e->rows.load(std::memory_order_relaxed);
        shape.slices = e->slices.load(std::memory_order_relaxed);
        return true;
    }
    void note(CUarray array, const ArrayShape& shape) noexcept {
        Entry* const e = entries_.of(array);
        if (!e) return;
        e->rows.store(shape.rows, std::memory_order_relaxed);
        e->slices.store(shape.slices, std::memory_order_relaxed);
        e->row_bytes.store(shape.row_bytes, std::memory_order_release);
    }
    void forget(CUarray array) noexcept { note(array, {}); }

  private:
    struct Entry {
        std::atomic<std::size_t> row_bytes, rows, slices;  // row_bytes is 0: not known
    };
    IdTable<Entry> entries_;
};
inline constinit ArrayShapes array_shapes;

}  // namespace barcuda::guest
