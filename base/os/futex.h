// SPDX-License-Identifier: Apache-2.0
// futex.h: sleeping on a word of the region, and waking its sleepers. A sleeper reads the word first, announces that it
// will sleep, looks whether there is work, and only then waits for the word to change: the kernel compares it once
// more, so a waker that changes the word before it wakes is never missed.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>

namespace barcuda {

// The possible sleepers on the word: threads of this process, or of any process of this kernel that maps it.
enum class Among : std::uint8_t { threads = FUTEX_PRIVATE_FLAG, processes = 0 };

// False: the time is over. True may be spurious: a signal, or a wake-up for another sleeper.
inline bool futex_wait(const std::uint32_t& word, std::uint32_t seen, std::uint64_t nanoseconds, Among among) {
    const timespec t{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
    return ::syscall(SYS_futex, &word, FUTEX_WAIT | static_cast<int>(among), seen, &t, nullptr, 0) == 0 ||
           errno != ETIMEDOUT;
}

inline void futex_wake(const std::uint32_t& word, Among among) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE | static_cast<int>(among), INT_MAX, nullptr, nullptr, 0);
}

}  // namespace barcuda
