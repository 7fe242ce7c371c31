// SPDX-License-Identifier: Apache-2.0
// unit_region.h: for the heap's unit tests: a region of 512 MiB (480 MiB of it extents) that the heap finds when it
// connects, in auto mode; and the look at what is granted.
#pragma once
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/heap.h"
#include "tests/heap/support/memfd_source.h"

namespace barcuda::heap {

inline test::MemfdSource* the_source = nullptr;

// The heap calls it, and no test.
[[gnu::used]] inline ExtentSource* connect() noexcept {
    return the_source = test::MemfdSource::open(std::size_t{512} << 20);
}

namespace test {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
constexpr std::size_t extents_bytes = 480 * MiB;

inline std::size_t granted() { return the_source ? the_source->granted() : 0; }

}  // namespace test
}  // namespace barcuda::heap
