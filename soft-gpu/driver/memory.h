// SPDX-License-Identifier: Apache-2.0
// memory.h: what a pointer is. Every range that kernels may access is an allocation: device memory in the heap's
// window, pinned host memory, registered memory of the program, managed memory, mapped physical memory, a module's
// variables, another process's memory. They never overlap, whichever device they belong to. Device memory counts
// against its device's size.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

#include "soft-gpu/driver/api.h"
#include "soft-gpu/driver/heap.h"
#include "soft-gpu/driver/ledger.h"

namespace barcuda::soft::driver {

class Context;
class Pool;
struct GraphMemory;

// Device memory without an address yet (cuMemCreate): a file (shareable.h) that may be mapped several times.
struct Physical {
    Physical(const CUmemAllocationProp& properties, std::size_t size,
             class Memory& memory);  // throws CUDA_ERROR_OUT_OF_MEMORY
    // Memory of another process, which counts there.
    Physical(const CUmemAllocationProp& properties, std::size_t size, int file)
        : file(file), size(size), properties(properties) {}
    ~Physical();
    Physical(const Physical&) = delete;
    int file = -1;
    std::size_t size = 0;
    CUmemAllocationProp properties{};  // the device among them
    std::atomic<int> holders{1};       // handles given out
    class Memory* counted = nullptr;
};

// Another process's memory, mapped here (ipc_calls.cc).
struct Opened {
    // Throws CUDA_ERROR_MAP_FAILED.
    static std::shared_ptr<Opened> map(int file, std::size_t offset, std::size_t bytes);
    Opened(void* pages, std::size_t length, std::uintptr_t address) : pages(pages), length(length), address(address) {}
    ~Opened();
    Opened(const Opened&) = delete;
    void* const pages;
    const std::size_t length;
    const std::uintptr_t address;  // address of the allocation, in the mapping
    std::atomic<int> times{1};     // number of opens minus closes
};

struct Allocation {
    enum class Kind { device, managed, host, registered, mapped, global, opened };
    std::uintptr_t base = 0;
    std::size_t size = 0;
    Kind kind = Kind::device;
    unsigned flags = 0;  // from the allocating call
    CUcontext context = nullptr;
    int device = 0;
    std::uint64_t id = 0;    // CU_POINTER_ATTRIBUTE_BUFFER_ID
    bool accessible = true;  // mapped memory: cuMemSetAccess has been called
    bool writable = true;
    bool left = false;                                     // freed in a stream's order; see Memory::leave
    bool sync_memops = false;                              // at first, what is not the host's says yes
    std::shared_ptr<Pool> pool{};                          // for cuMemAllocAsync
    std::weak_ptr<GraphMemory> graph{};                    // for a graph's allocation node
    std::shared_ptr<Physical> physical{};                  // for mapped memory
    std::size_t offset = 0;                                // in the physical memory
    std::array<CUmemAccess_flags, most_devices> access{};  // of each device to mapped memory
    std::shared_ptr<Opened> opened{};

    // Uses a part of its device's memory by itself.
    bool counted() const { return in_heap() || (kind == Kind::global && !(flags & CU_MEM_ATTACH_GLOBAL)); }
    bool on_device() const {
        return kind == Kind::device || kind == Kind::mapped || kind == Kind::global || kind == Kind::opened;
    }
    // Natively unified memory. (The flags of a global are those of a managed variable.)
    bool is_managed() const { return kind == Kind::managed || (kind == Kind::global && flags != 0); }
    bool in_heap() const { return kind == Kind::device || kind == Kind::managed; }
    bool of_others_pool() const { return kind == Kind::opened && pool; }  // from cuMemPoolImportPointer
    bool freeable() const { return in_heap() || of_others_pool(); }       // cuMemFree accepts it
    bool of_graph() const {                                               // or of one that has ended
        const std::weak_ptr<GraphMemory> none;
        return graph.owner_before(none) || none.owner_before(graph);
    }
    // cuIpcGetMemHandle accepts it
    bool legacy_ipc() const { return kind == Kind::device && !pool && graph.expired(); }
    bool host_pinned() const { return kind == Kind::host || kind == Kind::registered; }
};

// What cuMemAddressReserve has reserved there: where it begins, and its size.
std::pair<std::uintptr_t, std::size_t> reserved_around(std::uintptr_t mapped);

// Returns the pages of pinned memory (Kind::host) to the system, once the table no longer has it.
void unmap_host(const Allocation& gone);

class Memory {
  public:
    Memory(std::uintptr_t window, std::size_t size, int devices, AddressSpace& space)
        : size_(size), heap_(window, size * static_cast<std::size_t>(devices)), space_(space) {}

    // Device or managed memory. Throws CUDA_ERROR_OUT_OF_MEMORY.
    std::uintptr_t allocate(Allocation wanted, std::size_t alignment = Heap::granule);
    // Adds an existing range: registered, pinned, mapped, global. Throws `overlap` if it overlaps another.
    void adopt(Allocation range, CUresult overlap);
    // Forgets the allocation that starts at `base`, if `expected` holds for it; frees heap memory.
    // Throws CUDA_ERROR_INVALID_VALUE if there is none.
    template <class Expected> Allocation remove(std::uintptr_t base, const Expected& expected) {
        std::unique_lock lock(mutex_);
        const auto found = ranges_.find(base);
        if (found == ranges_.end() || !expected(found->second)) fail(CUDA_ERROR_INVALID_VALUE);
        return remove(found);
    }
    // What a stream frees is still there until a thread waits for the device, or the memory is needed, as with NVIDIA's
    // driver. The first time returns the pool that gets it back, if there is one.
    std::shared_ptr<Pool> leave(std::uintptr_t base);
    void collect();
    template <class Expected> std::vector<Allocation> remove_all(const Expected& expected) {
        std::vector<Allocation> removed;
        std::unique_lock lock(mutex_);
        for (auto at = ranges_.begin(); at != ranges_.end();) {
            const auto here = at++;
            if (expected(here->second)) removed.push_back(remove(here));
        }
        return removed;
    }
    template <class Change> bool change(std::uintptr_t address, const Change& change) {
        std::unique_lock lock(mutex_);
        const auto found = containing(address);
        if (found == ranges_.end()) return false;
        change(const_cast<Allocation&>(found->second));
        return true;
    }
    // Moves a module's variable to another device and another context.
    void move(std::uintptr_t base, CUcontext context, int device);
    void set_access(std::uintptr_t base, int device, CUmemAccess_flags flags);
    std::optional<Allocation> find(std::uintptr_t address) const;
    std::optional<Allocation> first_in(std::uintptr_t start, std::size_t size) const;

    template <class F> void each(const F& f) const {
        std::shared_lock lock(mutex_);
        for (const auto& [base, range] : ranges_) f(range);
    }

    // Whether kernels may access every byte, perhaps in several adjacent allocations.
    bool covered(std::uintptr_t address, std::size_t size, bool for_writing) const;

    // Counts device memory; false if the device is full.
    bool take(int device, std::size_t bytes);
    void give(int device, std::size_t bytes);
    std::size_t used(int device) const { return Ledger::of(device).used; }  // by this process
    std::size_t free(int device) const;                                     // and other processes' (card.h)
    std::size_t total() const { return size_; }                             // of each device

    Heap& heap() { return heap_; }
    AddressSpace& space() { return space_; }

  private:
    Heap& heap_of(const Allocation& allocation);
    std::uintptr_t try_to_allocate(Allocation wanted, std::size_t alignment);
    using Ranges = std::map<std::uintptr_t, Allocation>;
    Allocation remove(Ranges::iterator at);
    Ranges::const_iterator containing(std::uintptr_t address) const;
    Ranges::const_iterator overlapping(std::uintptr_t base, std::size_t size) const;

    const std::size_t size_;
    Heap heap_;  // of all devices
    AddressSpace& space_;
    mutable std::shared_mutex mutex_;
    Ranges ranges_;
    std::vector<std::uintptr_t> leaving_;
    std::uint64_t next_id_ = 1;
};

}  // namespace barcuda::soft::driver
