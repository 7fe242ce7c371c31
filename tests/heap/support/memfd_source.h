// SPDX-License-Identifier: Apache-2.0
// memfd_source.h: a source of extents without a host: a memfd mapped at the region's usual address, granted granule by
// granule. It checks what the heap does: an extent is released as it was granted, once; and it counts.
#pragma once
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "guest-allocator/heap/extents.h"

namespace barcuda::heap::test {

#ifdef __SANITIZE_THREAD__
constexpr std::uintptr_t usual_base = 0x7e8000000000;  // what ThreadSanitizer takes for a program's own memory
#else
constexpr std::uintptr_t usual_base = 0x200000000000;
#endif

[[noreturn]] inline void fail(const char* why) {
    for (const char* c = why; *c; ++c)
        if (write(2, c, 1) < 0) break;
    abort();
}

class MemfdSource final : public ExtentSource {
  public:
    // Null if the address is taken.
    static MemfdSource* open(std::size_t bytes, std::uintptr_t base = usual_base) noexcept;
    void close() noexcept;

    Extent window() const noexcept override { return window_; }
    bool grant(std::size_t bytes, Extent& out) noexcept override;
    void release(Extent extent) noexcept override;
    std::byte* alias(Extent part) noexcept override;
    bool renew(Extent pages) noexcept override;
    bool forks_by_itself() const noexcept override { return false; }
    int file() const noexcept override;

    void forked() noexcept override { ++told_of_forks; }

    bool refuse_aliases = false, refuse_renewals = false;
    std::atomic<unsigned> told_of_forks{0};

    std::size_t granted() const noexcept { return granted_.load(); }  // bytes out now
    std::size_t most() const noexcept { return most_.load(); }

  private:
    static constexpr std::size_t most_granules = 8192;
    Extent window_;
    std::atomic<std::size_t> granted_{0}, most_{0};
    std::uint16_t length_[most_granules] = {};  // on the first granule of an extent: its length
    bool used_[most_granules] = {};
};

inline MemfdSource* MemfdSource::open(std::size_t bytes, std::uintptr_t base) noexcept {
    auto* source = new (std::nothrow) MemfdSource;
    const int fd = memfd_create("region", MFD_CLOEXEC);
    if (ftruncate(fd, static_cast<off_t>(bytes))) return nullptr;
    void* at =
        mmap(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    ::close(fd);  // programs look at what is open
    if (at != reinterpret_cast<void*>(base)) return nullptr;
    source->window_ = {static_cast<std::byte*>(at), bytes};
    source->used_[0] = true;  // where a region has its header and channels
    return source;
}

inline void MemfdSource::close() noexcept {
    munmap(window_.address, window_.bytes);
    delete this;
}

// By way of the mapping; without the right to (it is root's), a child copies from memory.
inline int MemfdSource::file() const noexcept {
    char path[80];
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", reinterpret_cast<unsigned long>(window_.address),
             reinterpret_cast<unsigned long>(window_.address) + window_.bytes);
    return ::open(path, O_RDONLY | O_CLOEXEC);
}

// Shared memory whose length is said to be 0 is not moved but mapped again.
inline std::byte* MemfdSource::alias(Extent part) noexcept {
    void* p = refuse_aliases ? MAP_FAILED : mremap(part.address, 0, part.bytes, MREMAP_MAYMOVE);
    return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

// The first granule is never granted: from there all of the file can be mapped again.
inline bool MemfdSource::renew(Extent pages) noexcept {
    const auto at = static_cast<std::size_t>(pages.address - window_.address);
    if (refuse_renewals) return false;
    void* const all = mremap(window_.address, 0, at + pages.bytes, MREMAP_MAYMOVE);
    if (all == MAP_FAILED) return false;
    void* const part = static_cast<std::byte*>(all) + at;
    const bool moved =
        mremap(part, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.address) == pages.address;
    munmap(all, moved ? at : at + pages.bytes);
    return moved;
}

inline bool MemfdSource::grant(std::size_t bytes, Extent& out) noexcept {
    const std::size_t count = bytes / granule, all = window_.bytes / granule;
    if (!count || bytes % granule) fail("grant of a length that is no multiple of a granule\n");
    for (std::size_t g = 0, run = 0; g < all; ++g) {
        run = used_[g] ? 0 : run + 1;
        if (run < count) continue;
        const std::size_t first = g + 1 - count;
        for (std::size_t i = first; i <= g; ++i) used_[i] = true;
        length_[first] = static_cast<std::uint16_t>(count);
        out = {window_.address + first * granule, bytes};
        const std::size_t now = granted_ += bytes;
        if (now > most_) most_ = now;
        return true;
    }
    return false;
}

inline void MemfdSource::release(Extent extent) noexcept {
    const auto first = static_cast<std::size_t>(extent.address - window_.address) / granule;
    if (length_[first] * granule != extent.bytes || !extent.bytes)
        fail("release of an extent that was not granted like this\n");
    if (madvise(extent.address, extent.bytes, MADV_REMOVE)) fail("cannot clear an extent\n");
    for (std::size_t i = first; i < first + length_[first]; ++i) used_[i] = false;
    length_[first] = 0;
    granted_ -= extent.bytes;
}

}  // namespace barcuda::heap::test
