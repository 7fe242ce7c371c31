// SPDX-License-Identifier: Apache-2.0
// core.h: heap.cc's side towards the other files of the heap (outside the heap only its tests include it): the
// connection, the granules, and the functions that malloc.cc calls once it knows that a block is, or should be, in the
// region.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guest-allocator/heap/extents.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/lock.h"
#include "guest-allocator/heap/say.h"

namespace barcuda::heap {

constexpr std::size_t page = 4096;
// Blocks from here up are runs of pages (pages.h): rounded up to pages they waste at most 1/16. Smaller ones are
// mimalloc's (small.h).
constexpr std::size_t run_bytes = std::size_t{64} << 10;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) & ~(to - 1); }

// Blocks of at least `limit` bytes go to the region. No block does until there is a reason: the constructor in
// settings.cc (BARCUDA_HEAP=always) or activate() lowers it.
[[gnu::visibility("hidden")]] extern std::atomic<std::size_t> limit;

// What this process uses a granule of the region for.
enum class Use : std::uint8_t {
    none,
    pageable,
    pinned,
    small,
    kept_pages,  // in a forked child: private copies of its parent's blocks (fork.cc), ordinary memory
    kept_small,
};
struct Granule {
    std::atomic<Use> use{Use::none};
    std::atomic<bool> marked{false};  // some page of it was, once (mappings.h)
    std::uint32_t first = 0;          // granule with which its extent begins
    std::uint32_t count = 0;          // granules of its extent (on the first one)
    std::uint32_t idle_since = 0;     // seconds; on the first one: when the extent became empty
};
constexpr std::size_t max_granules = BARCUDA_MAX_SIZE / granule;
extern Granule granules[max_granules];

inline Use use_of(const void* p) noexcept {  // p lies in the window
    return granules[(reinterpret_cast<std::uintptr_t>(p) - window.base.load(std::memory_order_relaxed)) / granule]
        .use.load(std::memory_order_relaxed);
}

// malloc.cc's entries. region_alloc is null when the region cannot serve the block; the others take region blocks only.
void* region_alloc(std::size_t bytes, std::size_t alignment, bool zero) noexcept;
void* region_alloc_to_grow(std::size_t bytes) noexcept;  // for a block that had to move in order to grow
void region_free(void* p) noexcept;
std::size_t region_usable(const void* p) noexcept;
bool region_resize(void* p, std::size_t bytes) noexcept;  // in place

// An extent for `use` of at least `bytes`, from the source, with its granules marked; address null if there is none.
Extent grow(Use use, std::size_t bytes) noexcept;

// Returns extents to the host that have been empty for a while; all empty ones if `all`. Done when the heap grows and
// once in a thousand frees.
void trim(bool all = false) noexcept;

// Each process has its own connection: a child of a fork starts without one.
struct Connection {
    ExtentSource* source = nullptr;
    bool tried = false;
};
extern Connection connection;
extern std::atomic<bool> active;  // there is a source
bool attach() noexcept;           // with `growth` held: connects once; later calls only answer
extern Lock growth;               // taken before any pool's lock; guards connection and granules
class Pages;
extern Pages pageable, pinned;

// A block that was meant for the region is in ordinary memory: counted, and the first one is reported.
void note_fallback(std::size_t bytes) noexcept;

}  // namespace barcuda::heap
