// SPDX-License-Identifier: Apache-2.0
// heap.cc: the window is a file in memory, mapped once: the system provides pages when they are touched, so a device of
// 4 GiB costs nothing until it is used.
#include "soft-gpu/driver/heap.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <utility>

#include "soft-gpu/driver/api.h"

namespace barcuda::soft::driver {

namespace {
constexpr std::size_t page = 4096;
// A freed range shorter than this keeps its pages: returning them and faulting them in again would cost more than the
// memory.
constexpr std::size_t worth_giving_back = 64 << 10;

constexpr std::size_t whole(std::size_t size) { return (size + page - 1) / page * page; }

int memory_file(std::size_t size) {
    const int file = memfd_create("barcuda-device-memory", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, static_cast<off_t>(whole(size))) == 0) return file;
    if (file >= 0) close(file);
    fail(CUDA_ERROR_OUT_OF_MEMORY, "no file in memory for the device's memory");
}
}  // namespace

Heap::Heap(std::uintptr_t hint, std::size_t size) : Heap(hint, size, memory_file(size)) {}

Heap::Heap(std::uintptr_t hint, std::size_t size, int file) : size_(whole(size)), file_(file) {
    void* const at = mmap(reinterpret_cast<void*>(hint), size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) {
        close(file_);
        fail(CUDA_ERROR_OUT_OF_MEMORY, "no address space for the device's memory");
    }
    // A forked child has no device, so it needs no copy of its memory.
    madvise(at, size_, MADV_DONTFORK);
    base_ = reinterpret_cast<std::uintptr_t>(at);
    holes_[base_] = size_;
}

Heap::~Heap() {
    munmap(reinterpret_cast<void*>(base_), size_);
    close(file_);
}

void Heap::leave() {
    mmap(reinterpret_cast<void*>(base_), size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    close(std::exchange(file_, -1));
}

void Heap::come_back(int file) {
    if (file < 0) file = memory_file(size_);
    void* const wanted = reinterpret_cast<void*>(base_);
    if (mmap(wanted, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
        close(file);
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    madvise(wanted, size_, MADV_DONTFORK);
    file_ = file;
}

std::uintptr_t Heap::allocate(std::size_t size, std::size_t alignment) {
    if (size == 0 || size > size_) return 0;
    size = rounded(size);
    std::lock_guard lock(mutex_);
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
        const auto [start, length] = *hole;
        const std::uintptr_t address = (start + alignment - 1) & ~(alignment - 1);
        const std::size_t before = address - start;
        if (before > length || size > length - before) continue;
        holes_.erase(hole);
        if (before != 0) holes_[start] = before;
        if (before + size != length) holes_[address + size] = length - before - size;
        return address;
    }
    return 0;
}

void Heap::release(std::uintptr_t address, std::size_t size) {
    size = rounded(size);
    if (size >= worth_giving_back) {  // whole pages inside the range only: its neighbours share the outer ones
        const std::uintptr_t first = (address + page - 1) & ~(page - 1), last = (address + size) & ~(page - 1);
        madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE);
    }
    std::lock_guard lock(mutex_);
    auto next = holes_.upper_bound(address);
    if (next != holes_.end() && next->first == address + size) {
        size += next->second;
        next = holes_.erase(next);
    }
    if (next != holes_.begin()) {
        const auto previous = std::prev(next);
        if (previous->first + previous->second == address) {
            previous->second += size;
            return;
        }
    }
    holes_[address] = size;
}

}  // namespace barcuda::soft::driver
