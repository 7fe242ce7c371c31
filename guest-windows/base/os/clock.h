// SPDX-License-Identifier: Apache-2.0
// clock.h: the time, and how a thread waits, on Windows.
#pragma once
#include <cstdint>

namespace barcuda::os {

std::uint64_t now() noexcept;  // nanoseconds
std::uint32_t coarse_seconds() noexcept;
// Yields the processor to another runnable thread.
void yield() noexcept;
// Less than half a millisecond: the time is spent yielding, since the system's own naps are not shorter.
void nap(std::uint64_t nanoseconds) noexcept;

}  // namespace barcuda::os
