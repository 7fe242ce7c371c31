// SPDX-License-Identifier: Apache-2.0
// heap.h: malloc and free of kernels: one range of memory, first fit, for every program.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>

#include "soft-gpu/engine.h"

namespace barcuda::soft {

class Heap {
  public:
    Heap(AddressSpace& space, std::size_t bytes) : space_(space), bytes_(bytes) {}
    ~Heap();
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;
    std::byte* allocate(std::size_t size);  // null when it is exhausted
    bool release(std::byte* block);         // false: not a block of this heap

  private:
    static constexpr std::size_t grain = 16;  // alignment, as CUDA promises
    std::mutex mutex_;
    AddressSpace& space_;
    std::size_t bytes_;
    std::byte* base_ = nullptr;                       // reserved by the first allocation
    std::map<std::size_t, std::size_t> free_, used_;  // offset -> size
};

}  // namespace barcuda::soft
