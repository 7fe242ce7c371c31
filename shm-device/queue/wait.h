// SPDX-License-Identifier: Apache-2.0
// wait.h: how guest and host wait for a word in the region.
//
// Plain ivshmem delivers no interrupt, and a GPU that writes a fence never sends one. So a waiter polls, less and less
// often: it spins (an answer is often a microsecond away), then yields, then naps, each nap twice as long as the last,
// up to a bound that keeps an idle waiter's cost small. A waiter that can be woken announces that, looks once more, and
// sleeps; it also wakes by itself periodically, since the waker may have died. From time to time a waiter checks that
// the peer still lives: a wait for a dead peer must end with an error. Where there are fewer processors than threads
// that wait, each of them that stays awake takes one from a thread that has something to do, for whole slices of the
// kernel's: a waiter notices that by its clock, and naps.
//
//   Waited w = wait(pace, [&] { return driver.reap() >= n; }, [&] { return !region.served(); });
//
// or, where the looking does not fit into a function, one turn at a time:
//
//   for (Waiter waiter(pace); !done(); waiter.turn())
//       if (waiter.should_ask() && dead()) break;
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/os/clock.h"

namespace barcuda {

// How long each phase lasts, in microseconds. A machine with one processor should not spin: the peer needs it (spin =
// 0).
struct Pace {
    std::uint32_t spin = 100;      // longer than most answers: a launch and its fence take 8 us, a worker's turn 2 us
    std::uint32_t yield = 1000;    // then give way, but stay runnable: a kernel of a millisecond is still seen at once
    std::uint32_t nap_min = 50;    // the kernel's timer slack: it never sleeps for less
    std::uint32_t nap_max = 2000;  // 500 looks a second: below 1 % of a processor, and 2 ms late at worst
    std::uint32_t sleep = 0;     // not 0: once naps have grown to their bound it sleeps, at most this long, to be woken
    std::uint32_t ask = 10'000;  // between two questions whether the peer lives: that may cost system calls
    // not 0: a waiter that finds, while it spins or yields, that more time than this has passed between two looks at
    // the clock was not running. Other threads need the processor, perhaps the peer: it naps from now on. (A time slice
    // of the kernel is 3 ms.)
    std::uint32_t absence = 0;
};

// What waiting is made of. Tests, and waiters that can be woken (a futex, a doorbell), put their own in this place. Who
// can be woken says so in its first sleep(), and returns: the look that follows is the one that counts.
struct Os {
    static std::uint64_t now() { return os::now(); }  // nanoseconds
    static void pause() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("isb");
#endif
    }
    static void yield() { os::yield(); }
    static void nap(std::uint64_t nanoseconds) {
        os::nap(nanoseconds);
    }                                                                   // after a signal we look once more than planned
    static void sleep(std::uint64_t nanoseconds) { nap(nanoseconds); }  // no waker
};

// One wait: make it when the waiting begins, take a turn() after each look that found nothing.
template <class With = Os> class Waiter {
  public:
    explicit Waiter(const Pace& pace = {}, With with = {}) : pace_(pace), with_(with) {}
    With& with() { return with_; }

    void turn() {
        // The first looks cost no clock: reading it takes as long as 20 of them, and most waits are over by then.
        if (turns_ < looks_per_round && pace_.spin != 0) return ++turns_, with_.pause();
        if (turns_ % looks_per_round == 0 || napping_ || !spinning_) look_at_clock();
        if (turns_++ == (pace_.spin != 0 ? looks_per_round : 0)) start_ = asked_ = now_;
        const std::uint64_t waited = now_ - start_;
        spinning_ = !crowded_ && waited < pace_.spin * ns_per_us;
        napping_ = crowded_ || waited >= (std::uint64_t{pace_.spin} + pace_.yield) * ns_per_us;
        if (spinning_) return with_.pause();
        if (!napping_) return with_.yield();
        const std::uint64_t longest = pace_.nap_max * ns_per_us;
        if (nap_ == longest && pace_.sleep != 0) return with_.sleep(pace_.sleep * ns_per_us);
        with_.nap(nap_ = nap_ == 0 ? pace_.nap_min * ns_per_us : std::min(nap_ * 2, longest));
    }
    bool is_spinning() const { return spinning_; }
    // From now on as a wait that begins.
    void begin_again() { turns_ = 0, nap_ = 0, looked_ = 0, spinning_ = true, napping_ = crowded_ = false; }
    // Has it been long enough since the last time to ask whether the peer still lives? Never while spinning.
    bool should_ask() {
        if (spinning_ || now_ - asked_ < pace_.ask * ns_per_us) return false;
        asked_ = now_;
        looked_ = 0;  // what the caller does now takes time, and the processor
        return true;
    }

  private:
    static constexpr std::uint64_t ns_per_us = 1000;
    static constexpr std::uint32_t looks_per_round = 32;

    void look_at_clock() {
        now_ = with_.now();
        const std::uint64_t absence = pace_.absence * ns_per_us;
        crowded_ = crowded_ || (absence != 0 && looked_ != 0 && !napping_ && now_ - looked_ > absence);
        looked_ = now_;
    }

    const Pace pace_;
    With with_;
    std::uint64_t start_ = 0, now_ = 0, asked_ = 0, nap_ = 0;  // nanoseconds
    std::uint64_t looked_ = 0;                                 // at the clock; 0: not since the caller did something
    std::uint32_t turns_ = 0;
    bool spinning_ = true, napping_ = false, crowded_ = false;
};

enum class Waited : std::uint8_t { done, dead };

// Returns when done() or dead() says so. done() is asked first, and once more after dead(): what the peer finished
// before it died counts.
template <class Done, class Dead, class With = Os>
Waited wait(const Pace& pace, Done&& done, Dead&& dead, With with = {}) {
    for (Waiter<With> waiter(pace, with); !done(); waiter.turn())
        if (waiter.should_ask() && dead()) return done() ? Waited::done : Waited::dead;
    return Waited::done;
}

}  // namespace barcuda
