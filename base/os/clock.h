// SPDX-License-Identifier: Apache-2.0
// clock.h: the time, and how a thread waits. Inline: a spinning wait reads the clock all the time.
#pragma once
#include <sched.h>
#include <time.h>

#include <cstdint>

namespace barcuda::os {

inline std::uint64_t now() noexcept {  // nanoseconds
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

inline std::uint32_t coarse_seconds() noexcept {  // a few nanoseconds a call
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return static_cast<std::uint32_t>(t.tv_sec);
}

// Yields the processor to another runnable thread.
inline void yield() noexcept { ::sched_yield(); }

// A signal ends it early.
inline void nap(std::uint64_t nanoseconds) noexcept {
    const timespec t{static_cast<time_t>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000)};
    ::nanosleep(&t, nullptr);
}

}  // namespace barcuda::os
