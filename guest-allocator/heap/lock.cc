// lock.cc: waiting for a lock with an end.
#include "guest-allocator/heap/lock.h"

#include <time.h>

namespace barcuda::heap {

bool Lock::lock_for(unsigned ms) noexcept {
    if (self.forking || !pthread_mutex_trylock(&mutex_)) return true;
    if (!ms) return false;
    timespec until;
#ifdef __SANITIZE_THREAD__  // knows the older call alone
    constexpr clockid_t clock = CLOCK_REALTIME;
    constexpr auto wait = [](pthread_mutex_t* m, clockid_t, const timespec* t) {
        return pthread_mutex_timedlock(m, t);
    };
#else
    constexpr clockid_t clock = CLOCK_MONOTONIC;
    constexpr auto wait = pthread_mutex_clocklock;
#endif
    clock_gettime(clock, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += static_cast<long>(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) ++until.tv_sec, until.tv_nsec -= 1000000000;
    return !wait(&mutex_, clock, &until);
}

}  // namespace barcuda::heap
