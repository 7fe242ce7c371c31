// registrations.cc: what cudaHostRegister was told. Of memory in the region it is all there is to do: the pages are
// pinned and mapped already. Memory outside keeps its registration here as well; its copies are staged.
#include "guest-allocator/heap/registrations.h"

#include <sys/mman.h>

#include <cstring>

#include "guest-allocator/heap/core.h"

namespace barcuda::heap {

namespace {

struct Range {
    std::uintptr_t begin, end;
    unsigned flags;
};

// Sorted, disjoint. The table moves when it is full; its memory is mapped directly, so that nothing here depends on
// which malloc is in force.
Lock lock;
Range* ranges = nullptr;
std::size_t capacity = 0;
std::atomic<std::size_t> count{0};

// The first range that ends behind `at`.
std::size_t behind(std::uintptr_t at) noexcept {
    std::size_t low = 0, high = count.load(std::memory_order_relaxed);
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (ranges[middle].end > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

bool make_room() noexcept {
    if (count.load(std::memory_order_relaxed) < capacity) return true;
    const std::size_t bytes = capacity * sizeof(Range), more = bytes ? bytes * 2 : 4 * page;
    void* to = bytes ? mremap(ranges, bytes, more, MREMAP_MAYMOVE)
                     : mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (to == MAP_FAILED) return false;
    ranges = static_cast<Range*>(to);
    capacity = more / sizeof(Range);
    return true;
}

}  // namespace

Registration register_host(void* p, std::size_t bytes, unsigned flags) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    if (!p || !bytes || begin + bytes < begin) return Registration::invalid;
    if (in_region(p, 1) && use_of(p) == Use::pinned) return Registration::already_registered;
    Locked locked(lock);
    const std::size_t at = behind(begin), n = count.load(std::memory_order_relaxed);
    if (at < n && ranges[at].begin < begin + bytes) return Registration::already_registered;
    if (!make_room()) return Registration::invalid;
    std::memmove(ranges + at + 1, ranges + at, (n - at) * sizeof(Range));
    ranges[at] = {begin, begin + bytes, flags};
    count.store(n + 1, std::memory_order_release);
    return Registration::done;
}

Registration unregister_host(void* p) noexcept {
    if (!p) return Registration::invalid;
    Locked locked(lock);
    const std::size_t at = behind(reinterpret_cast<std::uintptr_t>(p)), n = count.load(std::memory_order_relaxed);
    if (at == n || ranges[at].begin != reinterpret_cast<std::uintptr_t>(p)) return Registration::not_registered;
    std::memmove(ranges + at, ranges + at + 1, (n - at - 1) * sizeof(Range));
    count.store(n - 1, std::memory_order_release);
    return Registration::done;
}

bool find_registered(const void* p, std::size_t bytes, Found& out) noexcept {
    if (!count.load(std::memory_order_acquire)) return false;
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    Locked locked(lock);
    const std::size_t at = behind(begin);
    if (at == count.load(std::memory_order_relaxed) || begin < ranges[at].begin || bytes > ranges[at].end - begin)
        return false;
    out = {Kind::registered, reinterpret_cast<std::byte*>(ranges[at].begin), ranges[at].end - ranges[at].begin,
           ranges[at].flags};
    return true;
}

void lock_registrations() noexcept { lock.lock(); }
void unlock_registrations() noexcept { lock.unlock(); }
void forget_registrations() noexcept { count.store(0, std::memory_order_relaxed); }

}  // namespace barcuda::heap
