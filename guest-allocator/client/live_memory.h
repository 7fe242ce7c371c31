// SPDX-License-Identifier: Apache-2.0
// live_memory.h: the device memory that this process has, as far as the guest knows. A command that is posted comes
// back too late to say that its memory is too short, or is not there. So command() looks here first: a command whose
// memory is all here is posted; any other is answered, and what the driver says of it is what the program hears, at the
// call. So an allocation that is missing here (a module's variable, another process's memory) costs a round trip, no
// more: at its first use the driver is asked what lies there, and from then on it is here. An entry that outlives its
// memory would make the guest accept what natively is an error, so each call that ends memory removes the entry.
//
// The look takes no lock: 64 places hold what was looked for last, each with a count that is odd while it changes. With
// more memory in use at once than that, a look may have to take the lock and search the table. All changes are under
// the lock.
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
    // Where the guest knows it from, which says what ends it.
    enum class Kind : std::uint8_t {
        none,       // it is not known
        allocated,  // by cuMemAlloc: until it is freed
        pooled,     // from a pool: until it is freed. A stream does not wait for words of it
        mapped,     // the program has mapped it there: until it is unmapped. Copies go on from one mapping to the next
        learned,    // the driver has told of it: until code is unloaded, or anything else ends memory unseen
    };

    // All of [p, p + bytes) lies in one allocation that lives, of that kind. (No device memory begins at 0.)
    Kind kind_of(std::uint64_t p, std::size_t bytes) noexcept {
        const Place& place = places_[place_of(p)];
        const std::uint32_t before = place.changes.load(std::memory_order_acquire);
        const std::uint64_t begin = place.begin.load(std::memory_order_relaxed);
        const std::uint64_t end = place.end.load(std::memory_order_relaxed);
        const Kind kind = place.kind.load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        const bool whole = !(before & 1) && place.changes.load(std::memory_order_relaxed) == before;
        if (whole && p - begin < end - begin && bytes <= end - p) [[likely]]
            return kind;
        return look(p, bytes);
    }
    bool holds(std::uint64_t p, std::size_t bytes) noexcept { return kind_of(p, bytes) != Kind::none; }

    // Replaces what is known there: memory of a graph or a pool that has ended unseen.
    void add(std::uint64_t begin, std::size_t bytes, Kind kind) noexcept;
    // An allocation that was seen begins there. It is not here any more.
    bool take(std::uint64_t begin) noexcept;
    // Nothing of [begin, begin + bytes) is here any more; of mapped memory the rest stays.
    void forget(std::uint64_t begin, std::size_t bytes) noexcept;
    void forget_learned() noexcept;
    void forget_all() noexcept;

  private:
    static constexpr std::size_t places = 64;
    struct Range {
        std::uint64_t begin, end;
        std::uint64_t in_places;  // a bit for each place that holds it
        Kind kind;
    };
    struct alignas(32) Place {  // two of a cache line
        std::atomic<std::uint32_t> changes{0};
        std::atomic<Kind> kind{Kind::none};
        std::atomic<std::uint64_t> begin{0}, end{0};
    };
    // Neighbouring allocations have places of their own; 512 bytes are the driver's least unit.
    static std::size_t place_of(std::uint64_t p) { return (p >> 9 ^ p >> 16 ^ p >> 21) % places; }

    Kind look(std::uint64_t p, std::size_t bytes) noexcept;
    static void set(Place& place, const Range& range) noexcept;
    void put(std::uint64_t begin, std::uint64_t end, Kind kind) noexcept;
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
// Of memory that is not in the table.
Named look_closer(std::uint64_t p, std::size_t bytes) noexcept;
inline Named look_at(std::uint64_t p, std::size_t bytes) noexcept {
    return live_memory.holds(p, bytes) ? Named::known : look_closer(p, bytes);
}
// The same of words that a stream waits for or writes: NVIDIA's driver takes none in managed memory or in a pool's.
Named look_at_words(std::uint64_t p, std::size_t bytes) noexcept;

// The program has this memory now, and may free it.
void note_allocated(std::uint64_t begin, std::size_t bytes, LiveMemory::Kind kind) noexcept;

// Whether the driver has all of this memory in one allocation, or in mappings beside each other. It is asked if need
// be, and what it says is kept: so a command that it took once is posted the next time; and of a copy that goes through
// a buffer the first piece is not taken if there is no room for the last one.
bool is_there(std::uint64_t p, std::size_t bytes) noexcept;

}  // namespace barcuda::guest
