// SPDX-License-Identifier: Apache-2.0
// live_memory.h: the device memory that this process has, as far as the guest knows. A command that is posted comes
// back too late to say that its memory is too short, or is not there. So command() looks here first: a command whose
// memory is all here is posted; any other is answered, and what the driver says of it is what the program hears, at the
// call. So nothing is wrong if an allocation is missing here (a module's variable, another process's memory): its first
// use is a round trip, after which it is here.
//
// The look takes no lock: 64 places hold what was looked for last, each with a count that is odd while it changes. The
// whole table, and all changes, are under a lock.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/heap/ranges.h"

namespace barcuda::guest {

class LiveMemory {
  public:
    // All of [p, p + bytes) lies in one allocation that lives.
    bool holds(std::uint64_t p, std::size_t bytes) noexcept {
        const Place& place = places_[place_of(p)];
        const std::uint32_t before = place.changes.load(std::memory_order_acquire);
        const std::uint64_t begin = place.begin.load(std::memory_order_relaxed);
        const std::uint64_t end = place.end.load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        const bool whole = !(before & 1) && place.changes.load(std::memory_order_relaxed) == before;
        if (whole && p - begin < end - begin && bytes <= end - p) [[likely]]
            return true;
        return look(p, bytes);
    }
    void add(std::uint64_t begin, std::size_t bytes) noexcept;
    // Memory that the program has mapped: copies may go on from one mapping to the next.
    void add_mapped(std::uint64_t begin, std::size_t bytes) noexcept;
    // An allocation begins there. It is not here any more.
    bool take(std::uint64_t begin) noexcept;
    // Nothing of [begin, begin + bytes) is here any more; of mapped memory the rest stays.
    void forget(std::uint64_t begin, std::size_t bytes) noexcept;
    void forget_all() noexcept;

  private:
    struct Range {
        std::uint64_t begin, end;
        bool mapped;
    };
    struct Place {
        std::atomic<std::uint32_t> changes{0};
        std::atomic<std::uint64_t> begin{0}, end{0};
    };
    static constexpr std::size_t places = 64;
    // Neighbouring allocations have places of their own; 512 bytes are the driver's least unit.
    static std::size_t place_of(std::uint64_t p) { return (p >> 9 ^ p >> 16 ^ p >> 21) % places; }

    bool look(std::uint64_t p, std::size_t bytes) noexcept;
    void set(Place& place, std::uint64_t begin, std::uint64_t end) noexcept;
    void put(const Range& range) noexcept;
    void remove(std::size_t at) noexcept;
    void remove(std::uint64_t begin, std::uint64_t end) noexcept;

    Place places_[places];
    Mutex mutex_;
    heap::Ranges<Range> ranges_;
};
inline constinit LiveMemory live_memory;

// What the guest knows of memory that a command is about to name.
enum class Named {
    known,    // all of it is there
    unknown,  // the driver is asked
    refused,  // no driver would take it: memory of the program's that CUDA does not know
};
Named look_at(std::uint64_t p, std::size_t bytes) noexcept;

// The driver took this memory though it was not known: it is from now on.
void learn(std::uint64_t p) noexcept;

// The same for a copy that goes through a buffer, of which the first piece must not be taken if there is no room for
// the last one. The driver is asked if need be.
bool is_there(std::uint64_t p, std::size_t bytes) noexcept;

}  // namespace barcuda::guest
