// SPDX-License-Identifier: Apache-2.0
// mutex.h: the lock of the layers above the heap. No process of Windows is a fork of another.
#pragma once
#include <atomic>
#include <mutex>

#include "base/os/mutex.h"

namespace barcuda::guest {

inline std::atomic<bool> forked{false};
inline constexpr bool forked_after_init() noexcept { return false; }

using Mutex = os::Mutex;

}  // namespace barcuda::guest
