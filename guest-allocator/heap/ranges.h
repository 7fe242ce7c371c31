// SPDX-License-Identifier: Apache-2.0
// ranges.h: a table of address ranges, sorted and disjoint, searched by halves. Its memory is mapped directly, so that
// nothing depends on which malloc is in force. The caller holds a lock; only the count may be looked at without.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/os/map.h"

namespace barcuda::heap {

// T has members begin and end, and may be moved as bytes.
template <class T> class Ranges {
  public:
    std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }
    T& operator[](std::size_t i) noexcept { return table_[i]; }

    // The number of the first range that ends behind `at`; count() if there is none.
    std::size_t behind(std::uintptr_t at) const noexcept {
        std::size_t low = 0, high = count();
        while (low < high) {
            const std::size_t middle = (low + high) / 2;
            if (table_[middle].end > at) high = middle;
            else low = middle + 1;
        }
        return low;
    }
    bool overlap(std::uintptr_t begin, std::uintptr_t end) const noexcept {
        const std::size_t at = behind(begin);
        return at < count() && table_[at].begin < end;
    }
    bool make_room() noexcept {  // for one more
        if (count() < capacity_) return true;
        const std::size_t bytes = capacity_ * sizeof(T), more = bytes ? bytes * 2 : 4 * 4096;
        void* to = table_;
        if (bytes ? os::grow_memory(bytes, more, &to) : os::map_memory(more, os::Access::write, &to)) return false;
        table_ = static_cast<T*>(to);
        capacity_ = more / sizeof(T);
        return true;
    }
    void add(const T& range) noexcept {  // overlaps none; there is room
        const std::size_t at = behind(range.begin), n = count();
        std::memmove(static_cast<void*>(table_ + at + 1), table_ + at, (n - at) * sizeof(T));
        table_[at] = range;
        count_.store(n + 1, std::memory_order_release);
    }
    void remove(std::size_t at) noexcept {
        const std::size_t n = count();
        std::memmove(static_cast<void*>(table_ + at), table_ + at + 1, (n - at - 1) * sizeof(T));
        count_.store(n - 1, std::memory_order_release);
    }
    void clear() noexcept { count_.store(0, std::memory_order_release); }

  private:
    T* table_ = nullptr;
    std::size_t capacity_ = 0;
    std::atomic<std::size_t> count_{0};
};

}  // namespace barcuda::heap
