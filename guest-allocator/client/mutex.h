// SPDX-License-Identifier: Apache-2.0
// mutex.h: the lock of the layers above the heap. A forked child inherits locks that threads held which it does not
// have. Once CUDA was initialized it does not work there, as it does not natively, but its calls must say so and not
// wait. So in such a child these locks are open.
#pragma once
#include <atomic>
#include <mutex>

namespace barcuda::guest {

// This process was forked after its parent had initialized CUDA (client.cc).
inline std::atomic<bool> forked{false};
inline bool forked_after_init() noexcept { return forked.load(std::memory_order_relaxed); }

class Mutex {
  public:
    void lock() noexcept {
        if (!forked_after_init()) mutex_.lock();
    }
    bool try_lock() noexcept { return forked_after_init() || mutex_.try_lock(); }
    void unlock() noexcept {
        if (!forked_after_init()) mutex_.unlock();
    }

  private:
    std::mutex mutex_;
};

}  // namespace barcuda::guest
