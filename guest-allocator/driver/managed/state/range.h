// SPDX-License-Identifier: Apache-2.0
// range.h: a range of managed memory. It has memory on both sides, at the same addresses: device memory that the
// driver's virtual memory management maps there, and pages of the region that this process maps there. Copies by DMA
// read and write the region's pages at their own address, the alias. The device side of __managed__ variables is where
// the driver keeps them (variables.cc).
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "guest-allocator/driver/managed/state/blocks.h"
#include "guest-allocator/driver/managed/state/habit.h"

namespace barcuda::guest {
struct Fence;
}

namespace barcuda::guest::managed {

// Where allocations lie: a part of the window that the guest reserves for the device's own memory, far above the
// driver's own.
constexpr std::uintptr_t window_begin = 0x400000000000, window_end = 0x500000000000;
constexpr std::size_t unit = std::size_t{2} << 20;  // the driver's for memory of cuMemCreate

// Which streams may work on the memory (cudaStreamAttachMemAsync).
struct Attachment {
    enum Mode : std::uint8_t { global, host, single } mode = global;
    CUstream stream = nullptr;
    bool concerns(CUstream other) const { return mode == global || (mode == single && stream == other); }
};

// A copy to the host that a stream has been given (cudaMemPrefetchAsync), or that a wait brings (Habit).
struct Prefetch {
    Run run;
    Fence* fence;
    unsigned long long value;
    bool stale;          // the device may have changed the blocks since
    bool waits = false;  // the fence is a wait's, whose thread opens the blocks
    bool write = false;  // and so that the CPU may write them
};

struct Range {
    Range(std::uintptr_t at, std::size_t bytes, CUcontext its_context)
        : begin(at), end(at + bytes), context(its_context), blocks(at + bytes - base_of(at)) {}

    const std::uintptr_t begin, end;
    CUcontext context;
    std::byte* alias = nullptr;
    Blocks blocks;
    Attachment attachment;
    bool reattached = false;  // streams of an earlier attachment may still work on it: the CPU has not waited since
    bool untouched = false;   // neither side has written it: it reads as zeros
    bool accessible = false;  // the CPU may touch some block (Ranges::accessible)
    std::vector<Prefetch> prefetches;
    Habit habit;
    // What is copied between the sides: sorted, disjoint. Of a range of allocations one part, from the beginning to the
    // end of the last allocation that it has ever had.
    struct Part {
        std::uintptr_t begin, end;
    };
    std::vector<Part> parts;
    bool of_variables = false;
    bool shared = false;  // by several allocations

    std::size_t bytes() const { return end - begin; }
    // Blocks begin at multiples of the grain, the first and the last may be cut short.
    static std::uintptr_t base_of(std::uintptr_t address) { return address & ~(grain - 1); }
    std::size_t block_of(std::uintptr_t address) const { return (address - base_of(begin)) / grain; }
    Run blocks_of(std::uintptr_t from, std::uintptr_t to) const {  // that [from, to) touches
        if (from >= end || to <= begin) return {0, 0};
        return {block_of(std::max(from, begin)), block_of(std::min(to, end) - 1) + 1};
    }
    Run all() const { return {0, blocks.count()}; }
    std::uintptr_t start(const Run& run) const { return std::max(begin, base_of(begin) + run.first * grain); }
    std::size_t bytes(const Run& run) const { return std::min(end, base_of(begin) + run.last * grain) - start(run); }
    std::byte* at(const Run& run) const { return reinterpret_cast<std::byte*>(start(run)); }
    std::byte* alias_of(const Run& run) const { return alias + (start(run) - begin); }

    // Adds [from, to), as far as it lies in this range, to what is copied.
    void add_part(std::uintptr_t from, std::uintptr_t to) {
        parts.push_back({std::max(from, begin), std::min(to, end)});
        std::ranges::sort(parts, {}, &Part::begin);
    }
    // The last part reaches up to there. Returns what is new of it, which has never been copied.
    Part grow(std::uintptr_t to) {
        const std::uintptr_t before = parts.back().end;
        parts.back().end = std::max(before, to);
        return {before, parts.back().end};
    }
    // The device may change these blocks: a copy that is on its way is not their last state.
    void outdate_prefetches(const Run& run) {
        for (Prefetch& p : prefetches) p.stale |= !p.run.with(run).empty();
    }
};

}  // namespace barcuda::guest::managed
