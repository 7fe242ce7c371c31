// SPDX-License-Identifier: Apache-2.0
// copy_on_write.cc: what the device writes must not show in children that were forked before. Where the kernel module
// makes their snapshots it sees the owner's writes coming and copies the page for them first (guest-uio/snapshot.c),
// but not those of the device. So before the device is asked to write, the owner writes: the same bytes, once after
// each fork.
#include "guest-allocator/heap/copy_on_write.h"

#include "base/os/map.h"
#include "guest-allocator/heap/core.h"

namespace barcuda::heap {

namespace {

// Remembered in blocks of 16 pages: a copy asks for few of them, and little is written in vain.
constexpr std::size_t block = 16 * page;
std::atomic<std::uint32_t> forks{0};  // that the module has seen
std::uint32_t inherited_forks = 0;    // of them, in a forked child: its parents'
std::atomic<std::uint32_t>
    written_at[max_granules * (granule / block)];  // the value of `forks` when the block was written

void write_the_same(std::byte* p, std::size_t bytes) noexcept {
    if (os::touch_to_write(p, bytes)) return;
    // Before Linux 5.14, and without struct pages. Not in C++: a compiler may leave out what changes nothing.
    for (std::size_t at = 0; at < bytes; at += page) asm volatile("lock orb $0, %0" : "+m"(p[at]));
}

}  // namespace

void note_fork() noexcept {
    if (connection.source && connection.source->forks_by_itself()) forks.fetch_add(1, std::memory_order_relaxed);
}
void forget_forks() noexcept { inherited_forks = forks.load(std::memory_order_relaxed); }

void break_copy_on_write(const void* p, std::size_t bytes) noexcept {
    const std::uint32_t now = forks.load(std::memory_order_relaxed);
    if (now == inherited_forks || !bytes || !in_region(p, bytes)) return;
    const std::uintptr_t base = window.base.load(std::memory_order_relaxed);
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(p) - base, end = (offset + bytes - 1) / block + 1;
    for (std::size_t first = offset / block; first < end;) {
        std::size_t last = first;
        while (last < end && written_at[last].load(std::memory_order_relaxed) != now) ++last;
        if (last > first) write_the_same(reinterpret_cast<std::byte*>(base + first * block), (last - first) * block);
        for (; first < last; ++first) written_at[first].store(now, std::memory_order_relaxed);
        ++first;  // this one was written before
    }
}

}  // namespace barcuda::heap
