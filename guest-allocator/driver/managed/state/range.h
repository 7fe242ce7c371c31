// SPDX-License-Identifier: Apache-2.0
// range.h: a range of managed memory with its two homes: device memory that the driver's virtual memory management maps at the
// range's address, and a run of the region's pages, mapped there in this process. The run's own address (the alias) is what
// copies by DMA read and write. Of __managed__ variables the device's home is where the driver has them (variables.cc).
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "guest-allocator/driver/managed/state/blocks.h"

namespace barcuda::guest {
struct Fence;
}

namespace barcuda::guest::managed {

// Where allocations lie: a part of the window that the guest reserves for the device's own memory, far above the driver's own.
constexpr std::uintptr_t window_begin = 0x400000000000, window_end = 0x500000000000;
constexpr std::size_t unit = std::size_t{2} << 20;  // the driver's for memory of cuMemCreate

// Who may work on the memory, as cudaStreamAttachMemAsync says it.
struct Attachment {
    enum Mode : std::uint8_t { global, host, single } mode = global;
    CUstream stream = nullptr;
    bool concerns(CUstream other) const { return mode == global || (mode == single && stream == other); }
};

// What a stream has been asked to bring back to the host (cudaMemPrefetchAsync).
struct Inbound {
    Run run;
    Fence* fence;
    unsigned long long value;
    bool stale;  // it is not the last word: something was launched since, or it was not a copy that was asked for
};

struct Home {
    Home(std::uintptr_t at, std::size_t bytes, CUcontext its_context)
        : begin(at), end(at + bytes), context(its_context), blocks(at + bytes - base_of(at)) {}

    const std::uintptr_t begin, end;
    CUcontext context;
    std::byte* alias = nullptr;
    Blocks blocks;
    Attachment attachment;
    bool reattached = false;  // the CPU has not waited yet for those who could work on it before
    bool young = false;       // nothing has worked on it yet: it is zeros, wherever one looks
    bool listed = false;      // among those that a launch has to look at (Table::open)
    std::vector<Inbound> inbound;
    // What is copied between the two homes, if not all of it: sorted, disjoint.
    struct Part {
        std::uintptr_t begin, end;
    };
    std::vector<Part> parts;
    bool of_variables = false, shared = false;  // shared: by several allocations

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
};

}  // namespace barcuda::guest::managed
