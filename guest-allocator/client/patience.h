// SPDX-License-Identifier: Apache-2.0
// patience.h: how the guest waits for its host: as in shm-device/queue/wait.h, at this machine's pace, with a check
// from time to time that the host still lives. A long wait ends as a sleep, from which the worker wakes it (bell.h).
// Where many threads wait, a few of them do this for all (crowd.h).
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/os/thread.h"
#include "guest-allocator/client/crowd.h"
#include "shm-device/queue/wait.h"

namespace barcuda::guest {

class Client;

// What a waiting thread does with its processor, as a program tells CUDA: nothing said (CU_CTX_SCHED_AUTO); it stays
// awake (CU_CTX_SCHED_SPIN, _YIELD); it sleeps as soon as it can (CU_CTX_SCHED_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC).
// Or what it does until a worker serves it.
enum class Waits : std::uint8_t { as_usual, awake, asleep, unserved };

// A copy of 256 MiB takes 5 ms, a training step 150. Natively a thread that waits for one spins for all that time; one
// that naps continues 0.2 ms late, which is 0.3 % of the step. So a thread stays awake for a quarter of a second, and
// yields while it does. Where the worker needs this thread's processor (`few`: of two at most; a software GPU) it gets
// it soon, except in a guest, which has processors of its own.
constexpr Pace pace_of(Waits waits, bool few, bool own_kernel) {
    Pace pace{.spin = few && !own_kernel ? 20u : 500u,
              .yield = !few         ? 250'000u
                       : own_kernel ? 20'000u
                                    : 2'000u,
              .nap_min = 50,
              .nap_max = 1000,
              .sleep = 100'000,
              .ask = 100'000,
              .absence = 1'000};
    if (waits == Waits::awake) {
        pace.yield = ~std::uint32_t{0};
        pace.absence = 0;
    }
    if (waits == Waits::asleep || waits == Waits::unserved) {
        pace.spin = std::min(pace.spin, 50u);
        pace.yield = 0;
    }
    // Bridge and worker have a millisecond's work of it, in several processes. Where many programs start at once they
    // get processors for it only if those that wait do not keep them.
    if (waits == Waits::unserved) pace.nap_max = 200;
    return pace;
}

// While it exists this thread's wait is one that may never end if the program is wrong: after ten seconds it prints
// that, once in the process. (While the host has paused the client, the program is not at fault, and the message says
// so.)
class LongWait {
  public:
    explicit LongWait(const char* text) noexcept : text_(text), before_(current_) { current_ = this; }
    ~LongWait() { current_ = before_; }
    LongWait(const LongWait&) = delete;
    static void look(unsigned looks = 1) noexcept;  // ten times a second, while the thread waits (client.cc)

  private:
    static thread_local constinit LongWait* current_;
    const char* const text_;
    LongWait* const before_;
    unsigned looks_ = 0;
};

class Patience {
  public:
    explicit Patience(Waits waits = usual_) noexcept;  // client.cc
    explicit Patience(const Crowd::Until& until, Waits waits = usual_) noexcept : Patience(waits) { until_ = until; }
    ~Patience();  // client.cc
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;
    static void set_usual(Waits waits) noexcept { usual_ = waits; }  // of all threads, from their next wait on

    void wait(Client& client) noexcept {
        if (until_.word && (place_ || !waiter_.is_spinning())) [[unlikely]]
            turn_in_crowd(client);
        else waiter_.turn();
        if (waiter_.should_ask()) look_for_host(client);
    }

  private:
    friend struct PatienceTest;
    struct Woken : Os {
        bool announced = false;
        std::uint32_t seen = 0;
        void sleep(std::uint64_t nanoseconds) noexcept;  // client.cc
    };
    void turn_in_crowd(Client& client) noexcept;  // client.cc
    void look_for_host(Client& client) noexcept;  // client.cc: ends the session if the bridge's heart has stopped
    void note_looks(Client& client, unsigned looks) noexcept;  // client.cc: says why a wait lasts

    static inline std::atomic<Waits> usual_{Waits::as_usual};

    os::Uncancelled uncancelled_;
    Waiter<Woken> waiter_;
    std::uint64_t heartbeat_ = 0;
    Crowd::Until until_;
    Crowd::Place* place_ = nullptr;
    bool awake_ = false;
    unsigned silent_ = 0;  // looks in a row that found the same heartbeat
    unsigned paused_ = 0;  // looks that found the client paused by its host
};

}  // namespace barcuda::guest
