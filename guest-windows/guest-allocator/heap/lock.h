// SPDX-License-Identifier: Apache-2.0
// lock.h: the heap's mutex on Windows, where no process forks.
#pragma once
#include <atomic>
#include <mutex>

#include "base/os/mutex.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::heap {

using Lock = os::Mutex;
using Locked = std::lock_guard<Lock>;

template <class T> bool change(std::atomic<T>& value, T from, T to, std::memory_order order) noexcept {
    return value.compare_exchange_strong(from, to, order, std::memory_order_relaxed);
}

}  // namespace barcuda::heap
