// SPDX-License-Identifier: Apache-2.0
// patience.h: how the guest waits for its host: shm-device/wait.h's way, at this machine's pace, and with a look now
// and then whether there is still somebody to wait for. A long wait ends as a sleep, from which the worker wakes it
// (bell.h).
#pragma once
#include "guest-allocator/heap/uncancelled.h"
#include "shm-device/wait.h"

namespace barcuda::guest {

class Client;

// While it lives this thread's wait is one that may last for ever if the program is wrong: it says so, once in the process, after
// ten seconds.
class LongWait {
  public:
    explicit LongWait(const char* text) noexcept : text_(text), before_(current_) { current_ = this; }
    ~LongWait() { current_ = before_; }
    LongWait(const LongWait&) = delete;
    static void look() noexcept;  // ten times a second, while the thread waits (client.cc)

  private:
    static thread_local constinit LongWait* current_;
    const char* const text_;
    LongWait* const before_;
    unsigned looks_ = 0;
};

class Patience {
  public:
    Patience() = default;
    ~Patience();  // client.cc
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;

    void wait(Client& client) noexcept {
        waiter_.turn();
        if (waiter_.should_ask()) look_for_host(client);
    }

  private:
    struct Woken : Os {
        bool announced = false;
        std::uint32_t seen = 0;
        void sleep(std::uint64_t nanoseconds) noexcept;  // client.cc
    };
    static const Pace& pace() noexcept;           // client.cc
    void look_for_host(Client& client) noexcept;  // client.cc: ends the session if the bridge's heart has stopped

    heap::Uncancelled uncancelled_;
    Waiter<Woken> waiter_{pace()};
    std::uint64_t heartbeat_ = 0;
    unsigned silent_ = 0;  // looks in a row that found the same heartbeat
};

}  // namespace barcuda::guest
