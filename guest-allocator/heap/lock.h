// SPDX-License-Identifier: Apache-2.0
// lock.h: the heap's mutex, which survives a fork; and what replaces it where the process has no threads: nothing. A
// program without threads pays for no locked instruction, as it does not in glibc's own malloc.
#pragma once
#include <pthread.h>
#include <sys/single_threaded.h>

#include <atomic>

#include "guest-allocator/heap/heap.h"

namespace barcuda::heap {

// A mutex. The thread that forks takes them all, and handlers of other libraries that run in between may come back in:
// for that thread they are open. Adaptive: what it guards takes tens of nanoseconds.
class Lock {
  public:
    void lock() noexcept {
        if (!self.forking) pthread_mutex_lock(&mutex_);
    }
    bool try_lock() noexcept { return self.forking || !pthread_mutex_trylock(&mutex_); }
    void unlock() noexcept {
        if (!self.forking) pthread_mutex_unlock(&mutex_);
    }

  private:
    pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
};

// Holds a lock for a scope in which no thread can be started: without threads it is free, as in glibc's own malloc.
class Locked {
  public:
    explicit Locked(Lock& lock) : lock_(__libc_single_threaded ? nullptr : &lock) {
        if (lock_) lock_->lock();
    }
    ~Locked() {
        if (lock_) lock_->unlock();
    }
    Locked(const Locked&) = delete;

  private:
    Lock* const lock_;
};

// Changes one value to another, if it is still the first. Without threads no other can interfere, and a locked
// instruction costs as much as the rest of a malloc.
template <class T> bool change(std::atomic<T>& value, T from, T to, std::memory_order order) noexcept {
    if (!__libc_single_threaded) return value.compare_exchange_strong(from, to, order, std::memory_order_relaxed);
    if (value.load(std::memory_order_relaxed) != from) return false;
    value.store(to, std::memory_order_relaxed);
    return true;
}

}  // namespace barcuda::heap
