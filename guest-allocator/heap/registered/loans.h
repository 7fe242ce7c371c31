// SPDX-License-Identifier: Apache-2.0
// loans.h: memory that lies outside the region and was registered gets pages of the region lent to it: its contents and
// its address stay, but what stands behind the address is a run of pages that the device reaches. The run is mapped
// twice: where the program's memory is (the CPU's way to it) and where it lies in the region (the device's).
#pragma once
#include <cstddef>

namespace barcuda::heap {

// Pages for all of [p, p + bytes), rounded out. Answers where the device finds the byte at p, or null (counted, with
// the reason): then the memory is as it was. For a range whose pages have been lent already this is one look.
std::byte* lend(std::byte* p, std::size_t bytes) noexcept;

// To be called as often as lend() succeeded. The last one makes the memory private again, and the run is free for
// others; if that is not possible now, it will be tried again.
void restore(std::byte* p, std::size_t bytes) noexcept;

void forget_loans() noexcept;  // in a forked child

}  // namespace barcuda::heap
