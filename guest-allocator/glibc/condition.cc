// SPDX-License-Identifier: Apache-2.0
// condition.cc: pthread_cond_clockwait, which glibc has since 2.30 (stubs.py). libstdc++ calls it to wait for a moment
// of the monotonic clock. Older glibcs wait by the clock that a condition was made with, which is the real-time clock:
// so did libstdc++ then, and it still looks at the monotonic clock afterwards.
#include <pthread.h>

#include <ctime>

extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* until) {
    constexpr long second = 1000000000;
    timespec now{}, real{};
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &real);
    long nanoseconds = real.tv_nsec + until->tv_nsec - now.tv_nsec;
    real.tv_sec += until->tv_sec - now.tv_sec;
    for (; nanoseconds < 0; nanoseconds += second) --real.tv_sec;
    for (; nanoseconds >= second; nanoseconds -= second) ++real.tv_sec;
    real.tv_nsec = nanoseconds;
    return pthread_cond_timedwait(condition, mutex, &real);
}
