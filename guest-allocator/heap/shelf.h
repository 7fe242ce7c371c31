// SPDX-License-Identifier: Apache-2.0
// shelf.h: blocks that were given back and rest, whole, for the next one of their length: programs take and give the
// same sizes in a loop. A slot is one word, taken and filled by compare-and-swap, so that threads that do so at the
// same time meet neither on the pool's lock nor, with a shelf each, in a cache line. What rests counts as free: the
// pool clears the shelves before it says that it has no room, and before it looks for empty extents.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "guest-allocator/heap/core.h"

namespace barcuda::heap {

struct Resting {
    std::uint32_t at = 0, pages = 0;  // pages 0: nothing
};

class Shelves {
  public:
    // A block of that length, or nothing.
    Resting take(std::uint32_t pages) noexcept {
        auto& slot = slot_for(pages);
        std::uint64_t word = slot.load(std::memory_order_relaxed);
        if (word >> 32 != pages || !swap(slot, word, 0)) return {};
        return unpack(word);
    }
    // False: something else rests there.
    bool put(Resting block) noexcept { return swap(slot_for(block.pages), 0, pack(block)); }

    // The others are called with the pool's lock held.

    // Replaces the slot's block. Returns the evicted one, or `block` if the slot is closed.
    Resting replace(Resting block) noexcept {
        auto& slot = slot_for(block.pages);
        for (;;) {
            const std::uint64_t word = slot.load(std::memory_order_relaxed);
            if (word == closed) return block;
            if (swap(slot, word, pack(block))) return unpack(word);
        }
    }
    // Empties all slots: visit(block) for each that held one.
    template <class F> void clear(F visit) noexcept { exchange_all(0, visit); }
    // The same, and from here on nothing is taken or put without the lock, until open().
    template <class F> void close(F visit) noexcept { exchange_all(closed, visit); }
    void open() noexcept {
        for (auto& shelf : shelves_)
            for (auto& slot : shelf.slots) slot.store(0, std::memory_order_relaxed);
    }

  private:
    static constexpr std::uint64_t closed = 1;  // no block: its length would be 0
    using Slot = std::atomic<std::uint64_t>;
    // Sixteen lengths for a thread, a cache line for each eight; sixteen shelves, which more threads share.
    struct alignas(64) Shelf {
        std::array<Slot, 16> slots{};
    };
    std::array<Shelf, 16> shelves_{};
    inline static std::atomic<unsigned> threads_{0};

    static std::uint64_t pack(Resting b) noexcept { return std::uint64_t{b.pages} << 32 | b.at; }
    static Resting unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
    }
    Slot& slot_for(std::uint32_t pages) noexcept {
        if (!self.number) self.number = threads_.fetch_add(1, std::memory_order_relaxed) + 1;
        return shelves_[self.number % shelves_.size()].slots[pages * 0x9e3779b1u >> 28];
    }
    // A block's bytes go from the thread that gave it to the one that takes it.
    static bool swap(Slot& slot, std::uint64_t from, std::uint64_t to) noexcept {
        return change(slot, from, to, std::memory_order_acq_rel);
    }
    template <class F> void exchange_all(std::uint64_t to, F visit) noexcept {
        for (auto& shelf : shelves_)
            for (auto& slot : shelf.slots) {
                const std::uint64_t word = slot.load(std::memory_order_relaxed);
                if (word == closed || (!word && !to)) continue;
                if (const Resting block = unpack(slot.exchange(to, std::memory_order_acq_rel)); block.pages)
                    visit(block);
            }
    }
};

}  // namespace barcuda::heap
