// SPDX-License-Identifier: Apache-2.0
// heap.h: device memory's addresses. One window of the address space, as long as the device's memory; allocations are
// first-fit ranges of it, and a freed range's pages go back to the system. Thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace barcuda::soft::driver {

class Heap {
  public:
    // Maps the window at `hint` if that is free, otherwise anywhere. Throws Error{CUDA_ERROR_OUT_OF_MEMORY}.
    Heap(std::uintptr_t hint, std::size_t size);
    // The same with an existing file, which the heap takes over.
    Heap(std::uintptr_t hint, std::size_t size, int file);
    ~Heap();
    Heap(const Heap&) = delete;

    // Returns 0 if there is no such hole. `alignment` is a power of two; contents are undefined.
    std::uintptr_t allocate(std::size_t size, std::size_t alignment = granule);
    void release(std::uintptr_t address, std::size_t size);

    // Gives up the memory, but keeps the addresses: the file continues to exist for other processes that have it.
    // come_back() maps memory again: a new file, or this one.
    void leave();
    void come_back(int file = -1);  // throws Error{CUDA_ERROR_OUT_OF_MEMORY}

    bool contains(std::uintptr_t address) const { return address - base_ < size_; }
    std::uintptr_t base() const { return base_; }
    std::size_t size() const { return size_; }
    int file() const { return file_; }  // the whole window, from its start

    // As on hardware: what cudaMalloc's alignment promises to textures and vector loads.
    static constexpr std::size_t granule = 256;
    static std::size_t rounded(std::size_t size) { return (size + granule - 1) / granule * granule; }

  private:
    std::mutex mutex_;
    std::uintptr_t base_ = 0;
    std::size_t size_ = 0;
    int file_ = -1;
    std::map<std::uintptr_t, std::size_t> holes_;  // by address; neighbours are always merged
};

}  // namespace barcuda::soft::driver
