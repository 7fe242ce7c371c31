// SPDX-License-Identifier: Apache-2.0
// thread_end.h: what a thread keeps for itself, and releases when it ends. A thread may call a library until its very
// end: in destructors of its thread_locals and of keys, the main thread in those of globals too. So what it keeps is a
// plain pointer, and a key's destructor releases that: a use after it makes a new one, which the next round of keys'
// destructors releases. The main thread's stays where exit() ends the process. (A thread_local's destructor is the
// wrong place: it is over before the globals' begin, and its registration takes the loader's lock:
// guest-allocator/heap/next.h.)
#pragma once
#include <pthread.h>

#include <atomic>

namespace barcuda::os {

class ThreadEnd {
  public:
    explicit constexpr ThreadEnd(void (*release)() noexcept) noexcept : release_(release) {}
    // This thread will call `release`. (If the process has no key left, the thread leaves behind what it has.)
    void await() noexcept {
        unsigned known = key_.load(std::memory_order_acquire);
        if (pthread_key_t fresh; !known && pthread_key_create(&fresh, run) == 0) {
            if (key_.compare_exchange_strong(known, fresh + 1, std::memory_order_acq_rel)) known = fresh + 1;
            else pthread_key_delete(fresh);
        }
        if (known) pthread_setspecific(known - 1, this);
    }

  private:
    static void run(void* self) { static_cast<ThreadEnd*>(self)->release_(); }
    void (*const release_)() noexcept;
    std::atomic<unsigned> key_{0};  // one more than the key; 0: none yet
};

}  // namespace barcuda::os
