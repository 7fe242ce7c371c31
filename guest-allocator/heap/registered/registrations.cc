// SPDX-License-Identifier: Apache-2.0
// registrations.cc: what cudaHostRegister was told. Of memory in the region it is all there is to do: the pages are
// pinned and mapped already. Memory outside is lent pages of the region (loans.h); where that is not possible its
// registration is kept here all the same, and its copies are staged.
#include "guest-allocator/heap/registered.h"

#include "guest-allocator/heap/core.h"
#include "guest-allocator/heap/mappings.h"
#include "guest-allocator/heap/ranges.h"
#include "guest-allocator/heap/registered/loans.h"

namespace barcuda::heap {

namespace {

struct RegisteredRange {
    std::uintptr_t begin, end;
    unsigned flags;
    std::byte* device;  // where the device finds it; null: nowhere

    Found found() const { return {Kind::registered, reinterpret_cast<std::byte*>(begin), end - begin, flags, device}; }
};
Lock lock;
Ranges<RegisteredRange> ranges;

}  // namespace

Registration register_host(void* p, std::size_t bytes, unsigned flags) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    const std::uintptr_t end = begin + bytes;
    if (!p || !bytes || end < begin) return Registration::invalid;
    if (in_region(p, 1) && use_of(p) == Use::pinned) return Registration::already_registered;
    {
        Locked locked(lock);
        if (ranges.overlap(begin, end)) return Registration::already_registered;
    }
    auto* const host = static_cast<std::byte*>(p);
    const bool outside = !in_region(p, bytes) || inherited(p, bytes);
    const bool changed = !outside && is_marked(host, bytes, replaced | guarded);
    if (changed) statistics.not_lent[static_cast<std::size_t>(Refusal::foreign)].add();
    std::byte* const device = outside ? lend(host, bytes) : changed ? nullptr : host;
    Registration result = Registration::done;
    {
        Locked locked(lock);  // again: another thread may have been faster
        if (ranges.overlap(begin, end)) result = Registration::already_registered;
        else if (!ranges.make_room()) result = Registration::invalid;
        else ranges.add({begin, end, flags, device});
    }
    if (result != Registration::done && outside && device) restore(host, bytes);
    return result;
}

bool overlaps_registered(const void* p, std::size_t bytes) noexcept {
    if (!ranges.count()) return false;
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    Locked locked(lock);
    return ranges.overlap(begin, begin + bytes);
}

Registration unregister_host(void* p) noexcept {
    if (!p) return Registration::invalid;
    Found was;
    {
        Locked locked(lock);
        const std::size_t at = ranges.behind(reinterpret_cast<std::uintptr_t>(p));
        const auto begin = reinterpret_cast<std::uintptr_t>(p);
        if (at == ranges.count() || begin < ranges[at].begin) return Registration::not_registered;
        if (begin != ranges[at].begin) return Registration::invalid;  // within one: as the driver has it
        was = ranges[at].found();
        ranges.remove(at);
    }
    if (was.device && was.device != was.base) restore(was.base, was.bytes);
    return Registration::done;
}

bool find_registered(const void* p, std::size_t bytes, Found& out) noexcept {
    if (!ranges.count()) return false;
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    Locked locked(lock);
    const std::size_t at = ranges.behind(begin);
    if (at == ranges.count() || begin < ranges[at].begin || bytes > ranges[at].end - begin) return false;
    out = ranges[at].found();
    return true;
}

bool set_registered_flags(const void* p, unsigned flags) noexcept {
    if (!ranges.count()) return false;
    const auto at_byte = reinterpret_cast<std::uintptr_t>(p);
    Locked locked(lock);
    const std::size_t at = ranges.behind(at_byte);
    if (at == ranges.count() || at_byte < ranges[at].begin) return false;
    ranges[at].flags = flags;
    return true;
}

bool find_lent(const void* p, Found& out) noexcept {
    Locked locked(lock);
    for (std::size_t i = 0; i < ranges.count(); ++i) {
        out = ranges[i].found();
        const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(p) - out.device);
        if (out.device && offset < out.bytes) return true;
    }
    out = {};
    return false;
}

void lock_registrations() noexcept { lock.lock(); }
void unlock_registrations() noexcept { lock.unlock(); }
void forget_registered() noexcept {
    ranges.clear();
    forget_loans();
}

}  // namespace barcuda::heap
