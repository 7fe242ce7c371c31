// SPDX-License-Identifier: Apache-2.0
// futex.h: sleeping on a word, and waking its sleepers, on Windows: threads of one process alone.
#pragma once
#include <cstdint>

namespace barcuda {

enum class Among : std::uint8_t { threads };

// False: the time is over. True may be spurious.
bool futex_wait(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds, Among among) noexcept;
void futex_wake(const std::uint32_t& word, Among among) noexcept;

}  // namespace barcuda
