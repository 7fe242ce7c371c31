// SPDX-License-Identifier: Apache-2.0
// heap.cc: the connection to the source, growth and shrinking, and the entries that choose a room for a block: small
// ones go to mimalloc (small.h), the others and all pinned ones to runs of pages (pages.h).
#include "guest-allocator/heap/heap.h"

#include <cstring>

#include "base/os/clock.h"
#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/fork.h"
#include "guest-allocator/heap/malloc.h"
#include "guest-allocator/heap/mappings.h"
#include "guest-allocator/heap/pages.h"
#include "guest-allocator/heap/registered.h"
#include "guest-allocator/heap/settings.h"
#include "guest-allocator/heap/small.h"
#include "shm-device/queue/wire.h"

namespace barcuda::heap {

Window window;
std::atomic<std::size_t> limit{SIZE_MAX};
constinit thread_local Thread self __attribute__((tls_model("initial-exec")));
Granule granules[max_granules];
std::atomic<bool> active{false};
Connection connection;
Lock growth;

// No constructor makes anything of the heap: other libraries' constructors may run, and allocate, before this one's.
constinit Pages pageable{Use::pageable}, pinned{Use::pinned};

namespace {

constexpr std::uint32_t idle_seconds = 5;  // long enough for a program's loop to come round, short for a person
// Growth by at least this much, and by a quarter of what is held: few grants, little held in vain.
constexpr std::size_t least_growth = wire::first_extent, most_growth = 16 * granule;
// A source that has just refused is not asked again by every malloc: one refused grant costs a round trip.
std::atomic<std::uint32_t> full_at{0};
std::atomic<std::size_t> full_for{0};

Pages& pool(Use use) noexcept { return use == Use::pinned ? pinned : pageable; }

std::size_t held() noexcept { return statistics.granted_bytes.get(); }

// With `growth` held: extents that are empty go back. True if any did.
bool shrink(std::uint32_t seconds) noexcept {
    bool any = false;
    for (Pages* pages : {&pageable, &pinned})
        for (Extent extent; (extent = pages->retire(seconds)).address; any = true) {
            Inside inside;
            connection.source->release(extent);
            statistics.releases.add();
            statistics.granted_bytes.value.fetch_sub(extent.bytes, std::memory_order_relaxed);
        }
    if (any) full_for.store(0, std::memory_order_relaxed);
    return any;
}

bool ask(std::size_t bytes, Extent& out) noexcept {
    Inside inside;
    return connection.source->grant(bytes, out);
}

Pages::Block take(Use use, std::size_t bytes, std::size_t alignment, unsigned flags, bool hidden = false) noexcept {
    Pages& pages = pool(use);
    if (alignment <= page)
        if (const Pages::Block block = pages.take_rested(bytes, flags, hidden); block.p) return block;
    if (window.bytes.load(std::memory_order_acquire))
        if (const Pages::Block block = pages.take(bytes, alignment, flags, hidden); block.p) return block;
    growth.lock();  // slower by far: the source asks its host
    Pages::Block block;
    if (!attach()) limit.store(SIZE_MAX, std::memory_order_relaxed);  // no region: no malloc need ask again
    else if (!(block = pages.take(bytes, alignment, flags, hidden)).p) {
        const std::size_t need = bytes + (alignment > page ? alignment : 0);
        if (need >= bytes)
            if (const Extent extent = grow(use, need); extent.address)
                block = pages.take(bytes, alignment, flags, hidden, &extent);
    }
    growth.unlock();
    return block;
}

// The pages of a block from `from` on become the region's again, whatever the program has done to them.
bool renew(void* p, std::size_t from) noexcept {
    if (!ever_marked.load(std::memory_order_relaxed)) return true;
    const Pages::Info info = pageable.info(p);
    return info.base != p || from >= info.capacity || !is_marked(info.base + from, info.capacity - from, any_mark) ||
           unmark(info.base + from, info.capacity - from);
}

// Empty extents are released without a thread for it: every 1024th free of a thread looks, at most once a second.
void count_free() noexcept {
    static std::atomic<std::uint32_t> looked{0};
    if (++self.frees % 1024) return;
    const std::uint32_t second = os::coarse_seconds();
    if (looked.exchange(second, std::memory_order_relaxed) != second) trim();
}

}  // namespace

bool attach() noexcept {
    if (connection.tried) return connection.source;
    connection.tried = true;
    Inside inside;
    ExtentSource* source = connect();
    if (!source) return false;
    tell_of_forks(*source);
    const Extent all = source->window();
    if (all.bytes / granule > max_granules) {
        say("the region is larger than 256 GiB, so the heap does not use it");
        return false;
    }
    if (const std::size_t before = window.bytes.load(std::memory_order_relaxed)) {  // a forked child connects again
        if (before != all.bytes ||
            window.base.load(std::memory_order_relaxed) != reinterpret_cast<std::uintptr_t>(all.address)) {
            say("the parent's region lies at another address, so the heap stays ordinary memory");
            return false;
        }
        connection.source = source;
        active.store(true, std::memory_order_release);
        return true;
    }
    if (!open_books(all) || !pageable.open(all) || !pinned.open(all)) {
        say("no address space for the heap's books, the heap stays ordinary memory");
        return false;
    }
    window.base.store(reinterpret_cast<std::uintptr_t>(all.address), std::memory_order_relaxed);
    window.bytes.store(all.bytes, std::memory_order_release);
    connection.source = source;
    active.store(true, std::memory_order_release);
    return true;
}

// With `growth` held.
Extent grow(Use use, std::size_t bytes) noexcept {
    const std::size_t all = window.bytes.load(std::memory_order_relaxed);
    if (bytes > all) return {};
    const std::size_t refused = full_for.load(std::memory_order_relaxed);
    if (refused && bytes >= refused && os::coarse_seconds() - full_at.load(std::memory_order_relaxed) < 1 && !shrink(0))
        return {};
    shrink(idle_seconds);
    const std::size_t need = round_up(bytes, granule);
    std::size_t wish = round_up(held() / 4, granule);
    wish = wish < least_growth ? least_growth : wish > most_growth ? most_growth : wish;
    Extent extent;
    const bool granted = (wish > need && ask(wish, extent)) || ask(need, extent) || (shrink(0) && ask(need, extent));
    if (!granted) {
        full_at.store(os::coarse_seconds(), std::memory_order_relaxed);
        full_for.store(bytes, std::memory_order_relaxed);
        return {};
    }
    full_for.store(0, std::memory_order_relaxed);
    const auto first = static_cast<std::uint32_t>(
        (reinterpret_cast<std::uintptr_t>(extent.address) - window.base.load(std::memory_order_relaxed)) / granule);
    const auto count = static_cast<std::uint32_t>(extent.bytes / granule);
    if (use != Use::small && !commit_books(extent)) {
        Inside inside;
        connection.source->release(extent);
        return {};
    }
    granules[first].count = count;
    for (std::uint32_t i = first; i < first + count; ++i) {
        granules[i].first = first;
        granules[i].use.store(use, std::memory_order_relaxed);
    }
    statistics.grants.add();
    statistics.granted_bytes.add(extent.bytes);
    const std::uint64_t total = held();
    if (total > statistics.peak_bytes.get()) statistics.peak_bytes.value.store(total, std::memory_order_relaxed);
    return extent;
}

void note_fallback(std::size_t bytes) noexcept {
    if (!connection.source) return;  // no region, no fallback: this memory was never meant for it
    statistics.fallback_bytes.add(bytes);
    statistics.fallbacks.add();
    static std::atomic<bool> said{false};
    if (connection.source->is_full() && !said.exchange(true, std::memory_order_relaxed))
        say("the region is full: ",
            "malloc falls back to ordinary memory, whose copies are staged (BARCUDA_STATS=1 counts them)");
}

void* region_alloc(std::size_t bytes, std::size_t alignment, bool zero) noexcept {
    if (self.inside || bytes >> 47) return nullptr;  // the source's own needs; more than there are addresses
    if (bytes < run_bytes && alignment <= page) return small::alloc(bytes, alignment, zero);
    const Pages::Block block = take(Use::pageable, bytes, alignment, 0);
    if (!block.p) {
        note_fallback(bytes);
        return nullptr;
    }
    if (zero) std::memset(block.p, 0, block.stale < bytes ? block.stale : bytes);
    return block.p;
}

// What has grown will grow again: a place with half as much room behind it, so that a block that grows bit by bit is
// copied a few times and not once in every extent.
void* region_alloc_to_grow(std::size_t bytes) noexcept {
    if (!self.inside && bytes >= run_bytes && bytes < SIZE_MAX / 2)
        if (const Pages::Block block = take(Use::pageable, bytes + bytes / 2, 16, 0); block.p) {
            pageable.resize(block.p, bytes);
            return block.p;
        }
    return region_alloc(bytes, 16, false);
}

void region_free(void* p) noexcept {
    switch (use_of(p)) {
        case Use::kept_pages:
        case Use::kept_small: return forget(p);
        case Use::small: return small::free(p);
        case Use::pageable:
            if (!renew(p, 0)) return;  // what lies there now is no memory for others
            if (pageable.give(p)) return count_free();
            [[fallthrough]];
        default: die("free() of an address that malloc did not return, or twice", p);
    }
}

std::size_t region_usable(const void* p) noexcept {
    const Use use = use_of(p);
    return use == Use::small || use == Use::kept_small ? small::usable(p) : pool(use).info(p).capacity;
}

bool region_resize(void* p, std::size_t bytes) noexcept {
    const Use use = use_of(p);
    if (use == Use::pageable) return bytes >= run_bytes && renew(p, round_up(bytes, page)) && pageable.resize(p, bytes);
    if (use != Use::small) return false;  // a child's copy of its parent's block: it moves to memory of the child
    const std::size_t room = small::usable(p);
    return bytes <= room && bytes >= room / 2;  // a smaller one moves, so that the room is used again
}

void expect() noexcept {
    read_settings();
    if (settings.mode == Mode::never || limit.load(std::memory_order_relaxed) == settings.threshold) return;
    if (!is_in_front()) return void(settings.mode = Mode::never);
    if (!small::open()) return;  // the thread that loads the library continues here
    limit.store(settings.threshold, std::memory_order_relaxed);
}

bool activate() noexcept {
    if (!active.load(std::memory_order_acquire)) {
        growth.lock();
        const bool attached = attach();
        growth.unlock();
        if (!attached) return false;
    }
    expect();
    return true;
}

void forget_refusal() noexcept { full_for.store(0, std::memory_order_relaxed); }

void* pinned_alloc(std::size_t bytes, unsigned flags, std::size_t alignment) noexcept {
    return take(Use::pinned, bytes, alignment, flags).p;
}

bool pinned_free(void* p) noexcept {
    if (!in_region(p, 1) || use_of(p) != Use::pinned) return false;
    if (!pinned.give(p)) return false;
    count_free();
    return true;
}

bool set_flags(const void* p, unsigned flags) noexcept {
    if (set_registered_flags(p, flags)) return true;
    if (!in_region(p, 1) || use_of(p) != Use::pinned) return false;
    const Pages::Info info = pinned.info(p);
    if (info.base && !info.hidden) books[page_of(info.base)].flags = flags;
    return info.base && !info.hidden;
}

void* staging_alloc(std::size_t bytes) noexcept { return take(Use::pinned, bytes, page, 0, true).p; }
void staging_free(void* p) noexcept { pinned.give(p); }

Found find(const void* p) noexcept {
    if (Found found; find_registered(p, 1, found)) return found;
    if (!in_region(p, 1)) return {};
    const Use use = use_of(p);
    if (use == Use::none || use == Use::kept_pages || use == Use::kept_small) return {};
    if (use == Use::small) return {Kind::pageable};
    const Pages::Info info = pool(use).info(p);
    if (!info.base) return {};
    if (Found found; info.hidden) {
        find_lent(p, found);
        return found;
    }
    return {use == Use::pinned ? Kind::pinned : Kind::pageable, info.base, info.bytes, info.flags, info.base};
}

Kind kind_of(const void* p, std::size_t bytes) noexcept {
    if (Found found; find_registered(p, bytes, found)) return Kind::registered;
    if (!in_region(p, bytes)) return Kind::outside;
    switch (use_of(p)) {
        case Use::pinned: return Kind::pinned;
        case Use::pageable:
        case Use::small: return Kind::pageable;
        default: return Kind::outside;
    }
}

std::byte* reach(const void* p, std::size_t bytes) noexcept {
    auto* const at = static_cast<std::byte*>(const_cast<void*>(p));
    // What the program has mapped or protected since is the CPU's to touch; but what is registered stays the pages
    // that it was.
    if (in_region(p, bytes) && !inherited(p, bytes) && !is_marked(p, bytes, replaced | guarded)) return at;
    Found found;
    return find_registered(p, bytes, found) && found.device ? found.device + (at - found.base) : nullptr;
}

void trim(bool all) noexcept {
    if (!window.bytes.load(std::memory_order_acquire)) return;
    if (!growth.try_lock()) return;  // another thread grows the heap: not now
    if (connection.source) shrink(all ? 0 : idle_seconds);
    growth.unlock();
}

}  // namespace barcuda::heap
