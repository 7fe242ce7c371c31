// SPDX-License-Identifier: Apache-2.0
// crowd.h: the threads of this process that wait at the same time. If each of them looked for its answer, they would
// take the processors from the worker and from one another, and time would grow with the square of their number. So a
// few threads look, and the others sleep, each on a word of its own. One of those that look, the leader, calls a
// sleeper when its answer has come. When the leader's own wait is over, the next sleeper becomes the leader.
//
// Places are never unmapped: a program may leave a wait by longjmp, and its place then stays in the list.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/mutex.h"

namespace barcuda::guest {

class Crowd {
  public:
    struct Until {  // *word >= value
        const unsigned long long* word = nullptr;
        unsigned long long value = 0;
        bool in_turn = false;  // one thread at a time goes on: there may not be enough for all
    };
    class Place {
        friend class Crowd;
        enum State : std::uint32_t { asleep, called, looks, leads };
        std::atomic<std::uint32_t> state{asleep};  // the word that the thread sleeps on
        Until until;
        Place *before = nullptr, *next = nullptr;  // of those that are asleep; of those that are free
        std::uint64_t looks_seen = 0;

      public:
        bool is_called() const noexcept { return state.load(std::memory_order_acquire) == called; }
        bool is_awake() const noexcept { return state.load(std::memory_order_acquire) >= looks; }
    };

    explicit Crowd(unsigned most_awake) noexcept : most_awake_(most_awake) {}
    Crowd(const Crowd&) = delete;

    // A thread begins to wait, or was called in vain. Before its first sleep it must look once more. Null: no memory.
    Place* join(const Until& until) noexcept;
    void join_again(Place& place) noexcept;
    void leave(Place& place) noexcept;

    // For a place that is not awake. False: the time was over. If the leader has not looked in that time, this thread
    // leads.
    bool sleep(Place& place, std::uint64_t nanoseconds) noexcept;
    // For a place that is awake: the leader calls the sleepers whose words have come.
    void look(const Place& place) noexcept;
    // Calls the next place that goes on in turn, if its word has come.
    void call_next() noexcept;

  private:
    void take_role(Place& place) noexcept;  // under the lock, as all below
    void lead(Place& place) noexcept;
    void link(Place& place) noexcept;
    void unlink(Place& place) noexcept;
    Place* take_next() noexcept;
    static void wake(Place& place) noexcept;

    const unsigned most_awake_;
    Mutex mutex_;
    unsigned awake_ = 0;
    Place* leader_ = nullptr;
    Place *first_ = nullptr, *last_ = nullptr;  // asleep, in the order in which they came
    std::atomic<unsigned> asleep_{0};
    std::atomic<std::uint64_t> looks_{0};  // of leaders
    Place* free_ = nullptr;
};

}  // namespace barcuda::guest
