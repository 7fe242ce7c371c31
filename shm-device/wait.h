// wait.h: the one place that knows how to wait for a word in the region.
//
// Nobody sends us an interrupt over plain ivshmem, and a GPU that writes a fence never does. So a waiter looks again
// and again, ever less eagerly: it spins (an answer is often a microsecond away), then lets others run, then naps, each
// nap twice as long as the last, up to a bound that keeps an idle waiter's cost small. Now and then it asks whether the
// peer still lives: who waits for the dead must be told, not left.
//
//   Waited w = wait(patience, [&] { return driver.reap() >= n; }, [&] { return !region.served(); });
#pragma once
#include <sched.h>
#include <time.h>

#include <cstdint>

namespace barcuda {

// How long each phase lasts, in microseconds. The caller reads these from the environment, if it wants to; this file
// never does. A machine with one processor should not spin: the peer needs it (spin = 0).
struct Patience {
    std::uint32_t spin = 100;      // longer than most answers: a launch and its fence take 8 us, a worker's turn 2 us
    std::uint32_t yield = 1000;    // then give way, but stay runnable: a kernel of a millisecond is still seen at once
    std::uint32_t nap_min = 50;    // the kernel's timer slack: it never sleeps for less
    std::uint32_t nap_max = 2000;  // 500 looks a second: below 1 % of a processor, and 2 ms late at worst
    std::uint32_t ask = 10'000;    // between two questions whether the peer lives: that may cost system calls
};

enum class Waited : std::uint8_t { done, dead };

// What waiting is made of. Tests, and waiters that can be woken (a futex, a doorbell), put their own in this place.
struct Os {
    static std::uint64_t now() {  // nanoseconds
        timespec t;
        ::clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
    }
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb");
#endif
    }
    static void yield() { ::sched_yield(); }
    static void nap(std::uint64_t nanoseconds) {
        const timespec t{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
        ::nanosleep(&t, nullptr);  // a signal ends it early: we look once more than planned
    }
};

// Returns when done() or dead() says so. done() is asked first, and once more after dead(): what the peer finished
// before it died counts.
template <class Done, class Dead, class With = Os>
Waited wait(const Patience& patience, Done&& done, Dead&& dead, With&& with = With{}) {
    constexpr std::uint64_t kMicrosecond = 1000;
    constexpr int kLooks = 32;  // between two looks at the clock, which costs as much as 20 of them
    for (int i = 0; i < kLooks && patience.spin != 0; ++i) {
        if (done()) return Waited::done;
        with.pause();
    }
    const std::uint64_t start = with.now();
    std::uint64_t now = start, asked = start;
    for (; now - start < patience.spin * kMicrosecond; now = with.now())
        for (int i = 0; i < kLooks; ++i) {
            if (done()) return Waited::done;
            with.pause();
        }
    const std::uint64_t limit = (std::uint64_t{patience.spin} + patience.yield) * kMicrosecond;
    for (std::uint64_t nap = patience.nap_min * kMicrosecond;;) {
        if (done()) return Waited::done;
        if (now - asked >= patience.ask * kMicrosecond) {
            if (dead()) return done() ? Waited::done : Waited::dead;
            asked = now;
        }
        if (now - start < limit) {
            with.yield();
        } else {
            with.nap(nap);
            nap = nap * 2 < patience.nap_max * kMicrosecond ? nap * 2 : patience.nap_max * kMicrosecond;
        }
        now = with.now();
    }
}

}  // namespace barcuda
