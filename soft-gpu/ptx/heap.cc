// SPDX-License-Identifier: Apache-2.0
// heap.cc: first fit over a map of free ranges, neighbours joined on release.
#include "soft-gpu/ptx/heap.h"

#include <sys/mman.h>

namespace barcuda::soft {

Heap::~Heap() {
    if (base_ == nullptr) return;
    space_.remove(reinterpret_cast<std::uintptr_t>(base_));
    munmap(base_, bytes_);
}

std::byte* Heap::allocate(std::size_t size) {
    if (size == 0 || size > bytes_) return nullptr;
    std::lock_guard lock(mutex_);
    if (base_ == nullptr) {
        void* const at =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return nullptr;
        base_ = static_cast<std::byte*>(at);
        space_.add({reinterpret_cast<std::uintptr_t>(base_), bytes_, true});
        free_[0] = bytes_;
    }
    size = (size + grain - 1) / grain * grain;
    for (auto range = free_.begin(); range != free_.end(); ++range) {
        const auto [offset, room] = *range;
        if (room < size) continue;
        free_.erase(range);
        if (room > size) free_[offset + size] = room - size;
        used_[offset] = size;
        return base_ + offset;
    }
    return nullptr;
}

bool Heap::release(std::byte* block) {
    std::lock_guard lock(mutex_);
    if (base_ == nullptr || block < base_ || block >= base_ + bytes_) return false;
    const auto used = used_.find(static_cast<std::size_t>(block - base_));
    if (used == used_.end()) return false;
    auto [offset, size] = *used;
    used_.erase(used);
    const auto next = free_.find(offset + size);
    if (next != free_.end()) {
        size += next->second;
        free_.erase(next);
    }
    auto at = free_.lower_bound(offset);
    if (at != free_.begin()) {
        --at;
        if (at->first + at->second == offset) {
            at->second += size;
            return true;
        }
    }
    free_[offset] = size;
    return true;
}

}  // namespace barcuda::soft
