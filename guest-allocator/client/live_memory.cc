// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/client/live_memory.h"

#include <algorithm>
#include <bit>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest {

void LiveMemory::set(Place& place, const Range& range) noexcept {
    const std::uint32_t before = place.changes.load(std::memory_order_relaxed);
    place.changes.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    place.begin.store(range.begin, std::memory_order_relaxed);
    place.end.store(range.end, std::memory_order_relaxed);
    place.kind.store(range.kind, std::memory_order_relaxed);
    place.changes.store(before + 2, std::memory_order_release);
}

// (The range that the place held before keeps its bit: it may have to look at one place more when it goes.)
LiveMemory::Kind LiveMemory::look(std::uint64_t p, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t at = ranges_.behind(p);
    if (at == ranges_.count() || ranges_[at].begin > p) return Kind::none;
    Range& found = ranges_[at];
    found.in_places |= std::uint64_t{1} << place_of(p);
    set(places_[place_of(p)], found);
    return bytes <= found.end - p ? found.kind : Kind::none;
}

void LiveMemory::remove(std::size_t at) noexcept {
    const Range gone = ranges_[at];
    ranges_.remove(at);
    for (std::uint64_t left = gone.in_places; left; left &= left - 1) {
        Place& place = places_[static_cast<std::size_t>(std::countr_zero(left))];
        if (place.begin.load(std::memory_order_relaxed) == gone.begin) set(place, {});
    }
}

void LiveMemory::put(std::uint64_t begin, std::uint64_t end, Kind kind) noexcept {
    if (ranges_.make_room()) ranges_.add({begin, end, 0, kind});
}

void LiveMemory::remove(std::uint64_t begin, std::uint64_t end) noexcept {
    for (std::size_t at = ranges_.behind(begin); at < ranges_.count() && ranges_[at].begin < end;
         at = ranges_.behind(begin)) {
        const Range gone = ranges_[at];
        remove(at);
        if (gone.kind != Kind::mapped) continue;
        if (gone.begin < begin) put(gone.begin, begin, Kind::mapped);
        if (gone.end > end) put(end, gone.end, Kind::mapped);
    }
}

void LiveMemory::add(std::uint64_t begin, std::size_t bytes, Kind kind) noexcept {
    std::uint64_t end = begin + bytes;
    if (!begin || end <= begin) return;
    std::lock_guard lock(mutex_);
    remove(begin, end);
    if (kind == Kind::mapped)
        for (const std::uint64_t beside : {begin - 1, end}) {
            const std::size_t at = ranges_.behind(beside);
            if (at == ranges_.count() || ranges_[at].kind != Kind::mapped || ranges_[at].begin > beside) continue;
            begin = std::min(begin, ranges_[at].begin);
            end = std::max(end, ranges_[at].end);
            remove(at);
        }
    put(begin, end, kind);
}

bool LiveMemory::take(std::uint64_t begin) noexcept {
    std::lock_guard lock(mutex_);
    const std::size_t at = ranges_.behind(begin);
    if (at == ranges_.count() || ranges_[at].begin != begin) return false;
    if (ranges_[at].kind != Kind::allocated && ranges_[at].kind != Kind::pooled) return false;
    remove(at);
    return true;
}

void LiveMemory::forget(std::uint64_t begin, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    remove(begin, begin + bytes);
}

void LiveMemory::forget_learned() noexcept {
    std::lock_guard lock(mutex_);
    for (std::size_t at = ranges_.count(); at-- > 0;)
        if (ranges_[at].kind == Kind::learned) remove(at);
}

void LiveMemory::forget_all() noexcept {
    std::lock_guard lock(mutex_);
    ranges_.clear();
    for (Place& place : places_) set(place, {});
}

namespace {

// Memory of the program's that the device reaches, or managed memory. The worker has all of the region registered, and
// managed memory is ordinary device memory to its driver: only the guest knows what of it the program may name.
Named look_at_guests(std::uint64_t p, std::size_t bytes, bool& managed) {
    managed = false;
    if (managed::exists())
        if (const managed::Extent m = managed::extent_of(p); m.is_managed) {
            managed = true;
            return p - m.begin < m.bytes && bytes <= m.bytes - (p - m.begin) ? Named::known : Named::refused;
        }
    if (is_device(p)) return Named::unknown;
    void* const at = reinterpret_cast<void*>(p);
    const heap::Found f = heap::find(at);
    const std::size_t offset = f.offset_of(at);
    return f.is_cudas() && offset < f.bytes && bytes <= f.bytes - offset ? Named::known : Named::refused;
}

}  // namespace

Named look_closer(std::uint64_t p, std::size_t bytes) noexcept {
    bool managed;
    return bytes ? look_at_guests(p, bytes, managed) : Named::known;
}

Named look_at_words(std::uint64_t p, std::size_t bytes) noexcept {
    if (!bytes) return Named::known;
    const LiveMemory::Kind kind = live_memory.kind_of(p, bytes);
    if (kind == LiveMemory::Kind::allocated || kind == LiveMemory::Kind::mapped) return Named::known;
    if (kind != LiveMemory::Kind::none) return Named::unknown;
    bool managed;
    const Named named = look_at_guests(p, bytes, managed);
    return managed ? Named::refused : named;
}

void note_allocated(std::uint64_t begin, std::size_t bytes, LiveMemory::Kind kind) noexcept {
    // What lies where the program has memory of its own is taken for the program's.
    if (is_device(begin)) live_memory.add(begin, bytes, kind);
}

namespace {

bool ask(std::uint64_t p, CUpointer_attribute attribute, std::uint64_t& value) {
    value = 0;
    return bare_command<Op::pointer_attribute>(&value, attribute, p) == CUDA_SUCCESS;
}

// What the driver has at an address: an allocation, a variable, a mapping. Nothing: there is no memory, or addresses
// are reserved there and not mapped.
struct Told {
    std::uint64_t begin = 0, end = 0;
    bool mapping = false, writable = false;
};
Told ask(std::uint64_t p) {
    std::uint64_t is = 0, begin = 0, bytes = 0, mapping = 0, mapped = 0, access = 0, device = 0;
    if (!ask(p, CU_POINTER_ATTRIBUTE_MAPPED, is) || !is) return {};
    if (!ask(p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, begin) || !ask(p, CU_POINTER_ATTRIBUTE_RANGE_SIZE, bytes) ||
        p - begin >= bytes)
        return {};
    Told told{begin, begin + bytes};
    if (ask(p, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, access))
        told.writable = access == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    // The driver tells which access was set of what the program has mapped, and of nothing else.
    if (ask(p, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device)) {
        CUmemLocation place{};
        place.type = CU_MEM_LOCATION_TYPE_DEVICE;
        place.id = static_cast<int>(device);
        unsigned long long set = 0;
        told.mapping = bare_command<Op::cuMemGetAccess>(&set, &place, p) == CUDA_SUCCESS && set;
    }
    // By CUDA's documentation the range of such an address may be all that was reserved.
    if (told.mapping && ask(p, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, mapping) &&
        ask(p, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, mapped) && p - mapping < mapped) {
        told.begin = std::max(told.begin, mapping);
        told.end = std::min(told.end, mapping + mapped);
    }
    return told;
}

}  // namespace

bool is_there(std::uint64_t p, std::size_t bytes) noexcept {
    if (const Named named = look_at(p, bytes); named != Named::unknown) return named == Named::known;
    bool mapping = true;
    for (std::uint64_t at = p; at - p < bytes;) {
        const Told told = ask(at);
        if (told.begin == told.end || (at != p && !(mapping && told.mapping))) return false;
        // The guest does not see when memory of a graph ends.
        if (told.writable && !graphs_allocate.load(std::memory_order_relaxed) &&
            !live_memory.holds(told.begin, told.end - told.begin))
            live_memory.add(told.begin, told.end - told.begin,
                            told.mapping ? LiveMemory::Kind::mapped : LiveMemory::Kind::learned);
        mapping = told.mapping;
        at = told.end;
    }
    return true;
}

}  // namespace barcuda::guest
