// SPDX-License-Identifier: Apache-2.0
// mutex.h: a mutex that no constructor makes, so that constructors may use it: mingw's std::mutex is not constant. And
// one that a process which ends does not wait for: Windows has ended its other threads, with whatever they held, when
// it tells libraries.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/os/futex.h"

namespace barcuda::os {

// No thread runs but this one, and none will.
bool process_ends() noexcept;

class Mutex {
  public:
    void lock() noexcept {
        std::uint32_t was = 0;
        if (state_.compare_exchange_strong(was, held, std::memory_order_acquire)) return;
        while (state_.exchange(awaited, std::memory_order_acquire) != 0 && !process_ends())
            futex_wait(word(), awaited, second, Among::threads);
    }
    bool try_lock() noexcept {
        std::uint32_t was = 0;
        return state_.compare_exchange_strong(was, held, std::memory_order_acquire);
    }
    void unlock() noexcept {
        if (state_.exchange(0, std::memory_order_release) == awaited) futex_wake(word(), Among::threads);
    }

  private:
    static constexpr std::uint32_t held = 1, awaited = 2;
    static constexpr std::uint64_t second = 1'000'000'000;
    const std::uint32_t& word() const noexcept { return reinterpret_cast<const std::uint32_t&>(state_); }
    std::atomic<std::uint32_t> state_{0};
};

}  // namespace barcuda::os
