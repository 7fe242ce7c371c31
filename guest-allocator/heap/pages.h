// SPDX-License-Identifier: Apache-2.0
// pages.h: blocks of 64 KiB and more, and all pinned ones: runs of whole pages in extents. A two-level segregated fit:
// free runs hang in lists by size class, a bitmap says which lists are not empty, neighbours merge when they become
// free. A freed block first rests on its thread's shelf (shelf.h), where the next allocation of its length finds it. So
// a block that is allocated and freed in a loop takes no lock, every other operation the same few tens of nanoseconds
// under one, whether a block has 4 KiB or 4 GiB, and a block wastes less than a page.
//
// Why not mimalloc for these? Its segments of 32 MiB belong to a thread: 64 threads with a block of 1 MiB each would
// take 2 GiB, and a block of 33 MiB takes 64; it returns every freed huge block to the system, so that the next one
// starts with page faults (and here with a punch into shared memory); and it cannot release an arena.
//
// What is known of a page stands outside the region (Run below): the host can read and write the region, and must not
// be able to lead the allocator astray; and a fork copies the books like any private memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/shelf.h"

namespace barcuda::heap {

enum class State : std::uint8_t {
    interior,
    free,
    used,
    resting,  // on a shelf, or on its way there or back
};

// One for each page of the window. Pages are counted from the window's base.
struct Run {
    std::uint32_t pages;       // on a run's first page: its length
    std::uint32_t tail;        // on the last page of a free run: its length; elsewhere 0
    std::uint32_t next, prev;  // on the first page of a free run: its neighbours in the list; `none` ends it
    std::uint32_t fresh;  // of a free run: the number of pages at its end that were never used since the grant: zeros
    std::uint32_t flags;  // of a used run: the driver layer's
    std::uint32_t slack;  // of a used run: bytes that the program did not ask for
    std::atomic<State> state;  // interior unless a run begins here; from and to `free` only under the lock
    bool hidden;               // of a used run: a staging buffer, or lent: no program looks at its address

    State is() const noexcept { return state.load(std::memory_order_relaxed); }
    void become(State s) noexcept { state.store(s, std::memory_order_relaxed); }
};

// A set of page numbers that finds the nearest one at or below a page: where does the run begin that holds it? Three
// levels of 64: a bit says that the word below is not empty.
class Heads {
  public:
    static std::size_t footprint(std::size_t pages) noexcept;
    void place(void* memory, std::size_t pages) noexcept;
    void add(std::size_t page) noexcept;
    void remove(std::size_t page) noexcept;
    std::size_t at_or_below(std::size_t page) const noexcept;  // SIZE_MAX: there is none

  private:
    std::uint64_t* level_[4] = {};
};

// The books of the whole window: reserved when the region is opened, filled by extents.
bool open_books(Extent window) noexcept;
bool commit_books(Extent extent) noexcept;

extern Run* books;  // one Run a page of the window

inline std::uint32_t page_of(const void* p) noexcept {
    return static_cast<std::uint32_t>(
        (reinterpret_cast<std::uintptr_t>(p) - window.base.load(std::memory_order_relaxed)) / page);
}
inline std::byte* address_of(std::uint32_t at) noexcept {
    return reinterpret_cast<std::byte*>(window.base.load(std::memory_order_relaxed) + std::size_t{at} * page);
}
inline std::size_t pages_for(std::size_t bytes) noexcept {  // at least one
    return bytes > page ? (bytes - 1) / page + 1 : 1;
}

class Pages {
  public:
    constexpr explicit Pages(Use use) : use_(use) {}

    struct Block {
        std::byte* p = nullptr;
        std::size_t stale = 0;  // bytes [0, stale) may hold old data; the rest of the run is zeros
    };
    // A block of that length that rests on this thread's shelf, without the lock; null: none does.
    Block take_rested(std::size_t bytes, unsigned flags = 0, bool hidden = false) noexcept {
        const std::size_t pages = pages_for(bytes);
        const Resting rested = pages >> 32 ? Resting{} : shelves_.take(static_cast<std::uint32_t>(pages));
        if (!rested.pages) return {};
        books[rested.at].become(State::used);
        note(rested.at, bytes, flags, hidden);
        return {address_of(rested.at), pages * page};
    }
    // A block from the free runs; null: none is long enough. `alignment` is a power of two. An extent that `joins` is
    // added in the same step, so that no other thread gets between.
    Block take(std::size_t bytes, std::size_t alignment, unsigned flags = 0, bool hidden = false,
               const Extent* joins = nullptr) noexcept;
    // False: no block begins at p.
    bool give(void* p) noexcept;
    // Longer or shorter in place; false: the pages behind it are in use.
    bool resize(void* p, std::size_t bytes) noexcept;

    struct Info {
        std::byte* base = nullptr;
        std::size_t bytes = 0;  // as asked for
        std::size_t capacity = 0;
        unsigned flags = 0;
        bool hidden = false;
    };
    Info info(const void* p) noexcept;  // of the block that holds p; empty if p lies in a free run

    // An extent that has stood empty for `seconds` or longer, no longer in the pool; address null: there is none.
    Extent retire(std::uint32_t seconds) noexcept;

    // For a fork: calls visit(address, bytes) for each block of an extent that a program may know. The caller holds the
    // lock.
    template <class F> void each_block(Extent extent, F visit) noexcept;

    // Once, before all else.
    bool open(Extent window) noexcept;
    // Around a fork: nothing is taken or given but by the thread that forks.
    void freeze() noexcept;
    void thaw() noexcept;
    // In a forked child: the pool starts again; the records of its blocks stay.
    void forget_all() noexcept;

  private:
    static constexpr std::size_t bins = 400;
    static constexpr std::uint32_t none = ~0u;

    std::uint32_t find(std::uint32_t pages) const noexcept;
    void insert(std::uint32_t at, std::uint32_t pages, std::uint32_t fresh) noexcept;
    void unlink(std::uint32_t at) noexcept;
    void release(std::uint32_t at, std::uint32_t pages, std::uint32_t fresh) noexcept;
    Block carve(std::uint32_t at, std::uint32_t pages, std::size_t alignment) noexcept;
    // What is known of a used run. Its length has been set when it was carved.
    void note(std::uint32_t at, std::size_t bytes, unsigned flags, bool hidden) noexcept {
        Run& run = books[at];
        run.flags = flags;
        run.hidden = hidden;
        run.slack = static_cast<std::uint32_t>(std::size_t{run.pages} * page - bytes);
    }
    void join(Extent extent) noexcept;
    void make_room_for(Resting block) noexcept;
    void settle() noexcept;

    const Use use_;
    Lock lock_;
    Shelves shelves_;
    Heads heads_;  // its own: words of one bitmap would be shared by extents of two pools, and so of two locks
    std::uint32_t idle_ = 0;  // extents that are one free run
    std::uint64_t filled_[(bins + 63) / 64] = {};
    std::uint32_t first_[bins] = {};
};

template <class F> void Pages::each_block(Extent extent, F visit) noexcept {
    const std::uint32_t end = page_of(extent.address) + static_cast<std::uint32_t>(extent.bytes / page);
    // A run without a length: a signal handler has forked while the interrupted thread was writing it.
    for (std::uint32_t at = page_of(extent.address); at < end; at += books[at].pages ? books[at].pages : 1)
        if (books[at].is() == State::used && !books[at].hidden)
            visit(address_of(at), std::size_t{books[at].pages} * page);
}

}  // namespace barcuda::heap
