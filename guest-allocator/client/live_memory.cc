// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/live_memory.h"

#include <algorithm>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest {

void LiveMemory::set(Place& place, std::uint64_t begin, std::uint64_t end) noexcept {
    const std::uint32_t before = place.changes.load(std::memory_order_relaxed);
    place.changes.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    place.begin.store(begin, std::memory_order_relaxed);
    place.end.store(end, std::memory_order_relaxed);
    place.changes.store(before + 2, std::memory_order_release);
}

bool LiveMemory::look(std::uint64_t p, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t at = ranges_.behind(p);
    if (at == ranges_.count() || ranges_[at].begin > p) return false;
    const Range found = ranges_[at];
    set(places_[place_of(p)], found.begin, found.end);
    return bytes <= found.end - p;
}

void LiveMemory::remove(std::size_t at) noexcept {
    const Range gone = ranges_[at];
    ranges_.remove(at);
    for (Place& place : places_)
        if (place.begin.load(std::memory_order_relaxed) == gone.begin) set(place, 0, 0);
}

void LiveMemory::put(const Range& range) noexcept {
    if (range.begin < range.end && ranges_.make_room()) ranges_.add(range);
}

void LiveMemory::remove(std::uint64_t begin, std::uint64_t end) noexcept {
    for (std::size_t at = ranges_.behind(begin); at < ranges_.count() && ranges_[at].begin < end;
         at = ranges_.behind(begin)) {
        const Range gone = ranges_[at];
        remove(at);
        if (!gone.mapped) continue;
        if (gone.begin < begin) put({gone.begin, begin, true});
        if (gone.end > end) put({end, gone.end, true});
    }
}

void LiveMemory::add(std::uint64_t begin, std::size_t bytes) noexcept {
    if (!begin || begin + bytes <= begin) return;
    std::lock_guard lock(mutex_);
    remove(begin, begin + bytes);  // memory that ended without a word: of a graph, of a pool
    put({begin, begin + bytes, false});
}

void LiveMemory::add_mapped(std::uint64_t begin, std::size_t bytes) noexcept {
    if (!begin || begin + bytes <= begin) return;
    std::lock_guard lock(mutex_);
    Range whole{begin, begin + bytes, true};
    remove(whole.begin, whole.end);
    for (const std::uint64_t beside : {begin - 1, begin + bytes}) {
        const std::size_t at = ranges_.behind(beside);
        if (at == ranges_.count() || !ranges_[at].mapped || ranges_[at].begin > beside) continue;
        whole = {std::min(whole.begin, ranges_[at].begin), std::max(whole.end, ranges_[at].end), true};
        remove(at);
    }
    put(whole);
}

bool LiveMemory::take(std::uint64_t begin) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t at = ranges_.behind(begin);
    if (at == ranges_.count() || ranges_[at].begin != begin || ranges_[at].mapped) return false;
    remove(at);
    return true;
}

void LiveMemory::forget(std::uint64_t begin, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    remove(begin, begin + bytes);
}

void LiveMemory::forget_all() noexcept {
    std::lock_guard lock(mutex_);
    ranges_.clear();
    for (Place& place : places_) set(place, 0, 0);
}

Named look_at(std::uint64_t p, std::size_t bytes) noexcept {
    if (!bytes) return Named::known;
    void* const at = reinterpret_cast<void*>(p);
    const bool devices = windows.contains(p) && !heap::in_region(at, 1) && !is_taken(p);
    if (devices && live_memory.holds(p, bytes)) [[likely]]
        return Named::known;
    if (managed::exists())
        if (const managed::Extent m = managed::extent_of(p); m.bytes)
            return bytes <= m.bytes - (p - m.begin) ? Named::known : Named::refused;
    if (devices) return Named::unknown;
    // The worker has all of the region registered: only the heap knows what of it the program may name.
    const heap::Found f = heap::find(at);
    if (f.kind != heap::Kind::pinned && f.kind != heap::Kind::registered) return Named::refused;
    const auto base = reinterpret_cast<std::uint64_t>(f.base), device = reinterpret_cast<std::uint64_t>(f.device);
    const std::uint64_t offset = p - base < f.bytes ? p - base : p - device;
    if (offset >= f.bytes || bytes > f.bytes - offset) return Named::refused;
    return Named::known;
}

void learn(std::uint64_t p) noexcept {
    std::uint64_t begin = 0, bytes = 0;
    if (!windows.contains(p) || heap::in_region(reinterpret_cast<void*>(p), 1)) return;
    if (bare_command<Op::pointer_attribute>(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p) == CUDA_SUCCESS &&
        bare_command<Op::pointer_attribute>(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p) == CUDA_SUCCESS &&
        p - begin < bytes)
        live_memory.add(begin, bytes);
}

bool is_there(std::uint64_t p, std::size_t bytes) noexcept {
    Named named = look_at(p, bytes);
    if (named == Named::unknown) {
        learn(p);
        named = look_at(p, bytes);
    }
    return named == Named::known;
}

}  // namespace barcuda::guest
