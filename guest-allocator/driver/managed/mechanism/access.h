// SPDX-License-Identifier: Apache-2.0
// access.h: what the CPU may do with blocks of a range, and the migrations that follow. All under the state's lock.
#pragma once
#include <cstddef>
#include <memory>

#include "guest-allocator/driver/managed/mechanism/migration.h"
#include "guest-allocator/driver/managed/state/range.h"

namespace barcuda::guest::managed {

// The CPU may touch these blocks from now on. They need not be fetched. False: the system refuses.
bool allow(Range& range, Run run, bool write) noexcept;
// The same, if the system takes one more boundary.
bool allow_alone(Range& range, const Run& run, bool write) noexcept;
// The same as allow() of blocks on the device's side, which are fetched first. False: they cannot be read.
bool fetch(Range& range, Run run, bool write) noexcept;
// The CPU may not touch these blocks any more; what it has written is written back.
void invalidate(Range& range, Run within, const Ride& ride) noexcept;
// For a moment the CPU may read its old copy of a block that is on the device's side.
void show_block(const Range& range, std::size_t block, bool show) noexcept;

// A new range joins the others; and leaves them, when all copies to it are done.
void add_range(std::unique_ptr<Range> range) noexcept;
std::unique_ptr<Range> withdraw(Range& range) noexcept;

}  // namespace barcuda::guest::managed
