// SPDX-License-Identifier: Apache-2.0
// memory.cc: the table of ranges. The engine's AddressSpace holds the same ranges for kernels; the two change together,
// under the table's lock.
#include "soft-gpu/driver/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "soft-gpu/driver/card.h"
#include "soft-gpu/driver/pool.h"
#include "soft-gpu/driver/shareable.h"

namespace barcuda::soft::driver {

Physical::Physical(const CUmemAllocationProp& wanted, std::size_t bytes, Memory& memory)
    : size(bytes), properties(wanted), counted(&memory) {
    if (!memory.take(properties.location.id, size)) {
        counted = nullptr;
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    try {
        file = make_shareable({Label::What::memory, size, properties});
    } catch (const Error&) {
        memory.give(properties.location.id, size);
        throw;
    }
}

Physical::~Physical() {
    if (file >= 0) close(file);
    if (counted) counted->give(properties.location.id, size);
}

void unmap_host(const Allocation& gone) {
    if (gone.kind == Allocation::Kind::host) munmap(reinterpret_cast<void*>(gone.base), gone.size);
}

bool Memory::take(int device, std::size_t bytes) {
    if (Card* const card = Card::shared()) {
        if (!card->take(Ledger::number_of(device), bytes, total())) return false;
        Ledger::of(device).used += bytes;
        return true;
    }
    std::atomic<std::uint64_t>& all = Ledger::of(device).used;
    std::uint64_t used = all;
    do {
        if (bytes > total() || used > total() - bytes) return false;
    } while (!all.compare_exchange_weak(used, used + bytes));
    return true;
}

// For the software GPU's NVML.
extern "C" [[gnu::visibility("default")]] int barcuda_soft_card_used(int device, std::uint64_t* bytes) {
    Card* const card = Card::shared();
    if (card && device >= 0 && device < most_devices) *bytes = card->used(Ledger::number_of(device));
    return card != nullptr;
}

// For the worker's limits.
extern "C" [[gnu::visibility("default")]] std::uint64_t barcuda_soft_own_memory(int device) {
    return device < 0 || device >= most_devices ? 0 : Ledger::of(device).used.load();
}

void Memory::give(int device, std::size_t bytes) {
    Ledger::of(device).used -= bytes;
    if (Card* const card = Card::shared()) card->give(Ledger::number_of(device), bytes);
}

std::size_t Memory::free(int device) const {
    Card* const card = Card::shared();
    return total() - std::min<std::size_t>(card ? card->used(Ledger::number_of(device)) : used(device), total());
}

// Memory of a pool that other processes may have is in a file of its own.
Heap& Memory::heap_of(const Allocation& allocation) {
    return allocation.pool && allocation.pool->own ? *allocation.pool->own : heap_;
}

std::shared_ptr<Pool> Memory::leave(std::uintptr_t base) {
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(base);
    if (found == ranges_.end() || !found->second.freeable() || found->second.left) return nullptr;
    found->second.left = true;
    leaving_.push_back(base);
    return found->second.in_heap() ? found->second.pool : nullptr;
}

void Memory::collect() {
    std::unique_lock lock(mutex_);
    for (const std::uintptr_t base : std::exchange(leaving_, {}))
        if (const auto found = ranges_.find(base); found != ranges_.end() && found->second.left) remove(found);
}

std::uintptr_t Memory::allocate(Allocation wanted, std::size_t alignment) {
    try {
        return try_to_allocate(wanted, alignment);
    } catch (const Error&) { collect(); }
    return try_to_allocate(std::move(wanted), alignment);
}

std::uintptr_t Memory::try_to_allocate(Allocation wanted, std::size_t alignment) {
    const std::size_t bytes = Heap::rounded(wanted.size);
    if (wanted.size > total() || !take(wanted.device, bytes)) fail(CUDA_ERROR_OUT_OF_MEMORY);
    wanted.base = heap_of(wanted).allocate(wanted.size, alignment);
    if (wanted.base == 0) {
        give(wanted.device, bytes);
        fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    std::unique_lock lock(mutex_);
    wanted.id = next_id_++;
    wanted.sync_memops = true;
    const std::uintptr_t base = wanted.base;
    space_.add({base, wanted.size, true});
    ranges_.emplace(base, std::move(wanted));
    return base;
}

void Memory::adopt(Allocation range, CUresult overlap) {
    std::unique_lock lock(mutex_);
    if (overlapping(range.base, range.size) != ranges_.end()) fail(overlap);
    if (range.counted() && !take(range.device, Heap::rounded(range.size))) fail(CUDA_ERROR_OUT_OF_MEMORY);
    range.id = next_id_++;
    range.sync_memops = !range.host_pinned();
    // A module registers its variables with the engine itself.
    if (range.accessible && range.kind != Allocation::Kind::global)
        space_.add({range.base, range.size, range.writable});
    const std::uintptr_t base = range.base;
    ranges_.emplace(base, std::move(range));
}

Allocation Memory::remove(Ranges::iterator at) {
    Allocation gone = std::move(at->second);
    ranges_.erase(at);
    if (gone.accessible && gone.kind != Allocation::Kind::global) space_.remove(gone.base);
    if (gone.in_heap()) heap_of(gone).release(gone.base, gone.size);
    if (gone.counted()) give(gone.device, Heap::rounded(gone.size));
    return gone;
}

void Memory::move(std::uintptr_t base, CUcontext context, int device) {
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(base);
    if (found == ranges_.end()) return;
    Allocation& range = found->second;
    if (range.counted() && range.device != device) {
        if (!take(device, Heap::rounded(range.size))) fail(CUDA_ERROR_OUT_OF_MEMORY);
        give(range.device, Heap::rounded(range.size));
    }
    range.context = context;
    range.device = device;
}

// There is one mapping: all devices have the rights of any device.
void Memory::set_access(std::uintptr_t base, int device, CUmemAccess_flags flags) {
    std::unique_lock lock(mutex_);
    const auto found = ranges_.find(base);
    if (found == ranges_.end()) return;
    Allocation& range = found->second;
    if (range.accessible) space_.remove(base);
    range.access[static_cast<std::size_t>(device)] = flags;
    const auto any = [&](auto may) { return std::any_of(range.access.begin(), range.access.end(), may); };
    range.accessible = any([](auto f) { return f != CU_MEM_ACCESS_FLAGS_PROT_NONE; });
    range.writable = any([](auto f) { return f == CU_MEM_ACCESS_FLAGS_PROT_READWRITE; });
    mprotect(reinterpret_cast<void*>(base), range.size,
             (range.accessible ? PROT_READ : 0) | (range.writable ? PROT_WRITE : 0));
    if (range.accessible) space_.add({base, range.size, range.writable});
}

Memory::Ranges::const_iterator Memory::containing(std::uintptr_t address) const {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return ranges_.end();
    --after;
    return address - after->first < after->second.size ? after : ranges_.end();
}

Memory::Ranges::const_iterator Memory::overlapping(std::uintptr_t base, std::size_t size) const {
    if (const auto first = containing(base); first != ranges_.end()) return first;
    const auto next = ranges_.lower_bound(base);
    return next != ranges_.end() && next->first - base < size ? next : ranges_.end();
}

std::optional<Allocation> Memory::find(std::uintptr_t address) const {
    std::shared_lock lock(mutex_);
    const auto found = containing(address);
    return found == ranges_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Allocation> Memory::first_in(std::uintptr_t start, std::size_t size) const {
    std::shared_lock lock(mutex_);
    const auto found = overlapping(start, size);
    return found == ranges_.end() ? std::nullopt : std::optional(found->second);
}

bool Memory::covered(std::uintptr_t address, std::size_t size, bool for_writing) const {
    while (size != 0) {
        const AddressSpace::Range range = space_.find(address);
        if (range.size == 0) return false;
        // constant memory is read-only for kernels, but not for cudaMemcpyToSymbol
        if (for_writing && !range.writable) {
            const auto found = find(address);
            if (!found || found->kind != Allocation::Kind::global) return false;
        }
        const std::size_t here = range.size - (address - range.base);
        if (here >= size) return true;
        address += here;
        size -= here;
    }
    return true;
}

}  // namespace barcuda::soft::driver
