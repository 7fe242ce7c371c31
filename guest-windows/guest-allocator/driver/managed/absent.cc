// SPDX-License-Identifier: Apache-2.0
// absent.cc: on Windows managed memory stays in the region, where the device reaches it: it is pinned memory by another
// name. So no range of it has a side on the device.
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/managed/mechanism/access.h"
#include "guest-allocator/driver/managed/mechanism/backing.h"
#include "guest-allocator/driver/managed/mechanism/faults.h"

namespace barcuda::guest::managed {

void expect_faults() noexcept {}

std::unique_ptr<Range> make_range(std::size_t) noexcept { return nullptr; }
void release(std::unique_ptr<Range>) noexcept {}
void let_reach(CUdevice, const Range&) noexcept {}
bool map_host_side(Range&) noexcept { return false; }
void unmap_host_side(Range&) noexcept {}

bool allow(Range&, Run, bool) noexcept { return false; }
bool allow_alone(Range&, const Run&, bool) noexcept { return false; }
bool fetch(Range&, Run, bool) noexcept { return false; }
void invalidate(Range&, Run, const Ride&) noexcept {}
void show_block(const Range&, std::size_t, bool) noexcept {}
void add_range(std::unique_ptr<Range>) noexcept {}
std::unique_ptr<Range> withdraw(Range&) noexcept { return nullptr; }

bool fault_in(std::uintptr_t, std::size_t, bool) noexcept { return false; }
bool is_accessible(std::uintptr_t, std::size_t, bool) noexcept { return true; }

}  // namespace barcuda::guest::managed
