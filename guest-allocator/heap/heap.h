// SPDX-License-Identifier: Apache-2.0
// heap.h: the zero-copy heap as the driver layer sees it: pinned memory, "is it in the region, and what is it?",
// staging buffers and the counters. Host registration has a door of its own (registered.h). The program
// itself sees malloc.cc. Both hand out memory of the same region, from extents of their own: a granule of the region is
// pinned or pageable, so the question "which of the two?" is one load.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/os/thread.h"
#include "guest-allocator/heap/statistics.h"

namespace barcuda::heap {

// `inside`: this thread runs inside the heap or its source, and its own mallocs come from ordinary memory. `forking`:
// it stands between fork's prepare and parent/child handlers, and holds every lock of the heap.
struct Thread {
    bool inside = false;
    bool forking = false;
    unsigned frees = 0;   // blocks this thread has freed, for heap.cc
    unsigned number = 0;  // of the thread, for shelf.h; 0: it has none yet
};
extern constinit thread_local Thread self __attribute__((tls_model("initial-exec")));

// While one lives, this thread's mallocs are ordinary memory, and it is not cancelled. For code that holds a lock which
// connect() takes, and for what a source does.
struct Inside {
    os::Uncancelled uncancelled;
    bool before = self.inside;
    Inside() { self.inside = true; }
    ~Inside() { self.inside = before; }
    Inside(const Inside&) = delete;
};

// CUDA is in use: connects to the region now, and from here on malloc at and above the threshold uses it (unless
// BARCUDA_HEAP=never). Cheap when repeated. False if there is no region: everything then stays ordinary memory. Like
// expect(), it calls the loader, so the caller holds no lock.
bool activate() noexcept;

// CUDA will most likely be used: the program has registered a fat binary, which nvcc's programs do before main(). From
// here on malloc at and above the threshold uses the region in mode auto, and connects when the first such block is
// asked for: programs often fill their buffers before their first CUDA call, and those buffers are what they copy.
void expect() noexcept;

// The addresses of the region in this process; empty before the connection, then constant. `bytes` is stored after and
// loaded before `base`: no thread ever holds the new size against the old base.
struct alignas(64) Window {  // read by every free(): a cache line without writers
    std::atomic<std::uintptr_t> base{0};
    std::atomic<std::size_t> bytes{0};
};
[[gnu::visibility("hidden")]] extern Window window;

// The range lies in the region's addresses. That is not yet "the device reaches it": see kind_of().
inline bool in_region(const void* p, std::size_t bytes) noexcept {
    const std::size_t size = window.bytes.load(std::memory_order_acquire);
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(p) - window.base.load(std::memory_order_relaxed);
    return offset < size && bytes <= size - offset;
}

// The source is asked again at the next need, though it has just refused: it may have more now.
void forget_refusal() noexcept;

// Pinned memory, aligned to `alignment` (a power of two; at least a page). `flags` are kept for find() and mean nothing
// here. Null: the region is full, or there is none. Contents are undefined.
void* pinned_alloc(std::size_t bytes, unsigned flags, std::size_t alignment = 4096) noexcept;
// False: `p` is not the beginning of a pinned block.
bool pinned_free(void* p) noexcept;
// Other flags for the pinned block, or the registered range, that holds `p`. False: there is none.
bool set_flags(const void* p, unsigned flags) noexcept;

enum class Kind { outside, pageable, pinned, registered };

// What stands at an address. `base` and `bytes` are the whole block's as the program asked for it (pinned, registered)
// or the run of pages that holds it (pageable); of small pageable blocks and memory outside they stay empty. `device`
// is where the device finds the byte at `base`: there, or, of registered memory that lies outside the region, in the
// pages lent to it (registered/loans.h); null if it does not.
struct Found {
    Kind kind = Kind::outside;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    unsigned flags = 0;
    std::byte* device = nullptr;
    bool is_cudas() const { return kind == Kind::pinned || kind == Kind::registered; }
    // Where an address of either side lies in it; `bytes` and more: behind its end.
    std::size_t offset_of(const void* p) const {
        const auto* const at = static_cast<const std::byte*>(p);
        const auto of_base = static_cast<std::size_t>(at - base);
        return of_base < bytes ? of_base : static_cast<std::size_t>(at - device);
    }
};
// For an address at which the program, or the device, finds the memory.
Found find(const void* p) noexcept;
// The kind alone, of the range's first byte, for the path of a copy: a load and a range check while nothing is
// registered. Registered only if one registered range holds all of it.
Kind kind_of(const void* p, std::size_t bytes) noexcept;

// Where the device finds the bytes of [p, p + bytes): in the region itself, or in what was lent to a registered range
// that holds all of them. Null: nowhere, such memory must be staged.
std::byte* reach(const void* p, std::size_t bytes) noexcept;

// Buffers in the region through which the driver layer copies memory that lies outside. They are pinned blocks that
// find() reports as outside: no program has ever seen their addresses.
void* staging_alloc(std::size_t bytes) noexcept;
void staging_free(void* p) noexcept;

// Before the device is asked to write to a part of the region: children that were forked before do not see it
// (copy_on_write.cc).
void break_copy_on_write(const void* p, std::size_t bytes) noexcept;

// True in a forked child whose snapshot of its parent's region covers some of the range: nothing may be mapped there,
// and the device finds nothing of it.
[[gnu::visibility("hidden")]] extern bool keeps_parents_blocks;
bool in_kept_blocks(const void* p, std::size_t bytes) noexcept;
inline bool inherited(const void* p, std::size_t bytes) noexcept {
    return keeps_parents_blocks && in_kept_blocks(p, bytes);
}

}  // namespace barcuda::heap
