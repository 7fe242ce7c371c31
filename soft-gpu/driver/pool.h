// SPDX-License-Identifier: Apache-2.0
// pool.h: memory pools. A pool counts its allocations; the memory itself is the device's. Memory of cuMemAllocAsync has
// its address at once, and is freed when its stream reaches cuMemFreeAsync. The memory of a shareable pool is in a file
// of its own, which other processes get (shareable.h).
#pragma once
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "soft-gpu/driver/memory.h"

namespace barcuda::soft::driver {

class Pool {
  public:
    explicit Pool(int device) : device(device) {}
    ~Pool() {
        if (imported >= 0) close(imported);
    }
    const int device;
    std::unique_ptr<Heap> own;  // if other processes may have it
    int imported = -1;          // the file of another process's pool: nothing is allocated from it here
    std::size_t limit = 0;      // CUmemPoolProps::maxSize; 0: the device's
    std::atomic<std::uint64_t> release_threshold{0};
    std::atomic<int> follow_events{1}, opportunistic{1}, internal_dependencies{1};
    std::atomic<std::uint64_t> used{0}, used_high{0};

    std::array<std::atomic<CUmemAccess_flags>, most_devices> access{};  // of other devices

    bool take(std::uint64_t bytes);
    void give(std::uint64_t bytes) { used -= bytes; }
};

}  // namespace barcuda::soft::driver
