// SPDX-License-Identifier: Apache-2.0
// small_region.h: the shape of a region of a few channels and granules, for tests of the bridge's books; and memory
// that a child shares with its test.
#pragma once
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "shm-device/region/region.h"

namespace barcuda::test {

constexpr std::uint64_t granule = BARCUDA_GRANULE;
constexpr std::uint32_t channels = 4, granules = 8;

inline Shape shape() {
    Shape shape;
    shape.base = BARCUDA_DEFAULT_BASE;
    shape.size = 1 << 30;
    shape.granule = granule;
    shape.extents_offset = 4 * granule;
    shape.channel_count = channels;
    shape.granule_count = granules;
    return shape;
}

// Memory that a child shares with the test, as a region is.
template <class T> struct SharedWith {
    T* const at = static_cast<T*>(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    SharedWith() = default;
    SharedWith(const SharedWith&) = delete;
    ~SharedWith() { munmap(at, sizeof(T)); }
    T* operator->() const { return at; }
    void clear() const { std::memset(static_cast<void*>(at), 0, sizeof(T)); }
};

}  // namespace barcuda::test
