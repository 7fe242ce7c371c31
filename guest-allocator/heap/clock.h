// SPDX-License-Identifier: Apache-2.0
// clock.h: the time as the heap needs it (how long an extent stood empty, when a grant was last refused): a few
// nanoseconds a look.
#pragma once
#include <time.h>

#include <cstdint>

namespace barcuda::heap {

inline std::uint32_t now() noexcept {  // seconds, coarse
    timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return static_cast<std::uint32_t>(t.tv_sec);
}

}  // namespace barcuda::heap
