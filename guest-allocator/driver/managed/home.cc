// SPDX-License-Identifier: Apache-2.0
// home.cc: making and removing both homes of a range. The device's is made by the driver's functions for virtual memory, each a
// command that programs have too: so it counts against a client's limit, and no host need know of managed memory.
#include "guest-allocator/driver/managed/home.h"

#include <sys/mman.h>

#include <map>
#include <memory>
#include <new>
#include <utility>

#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/heap/heap.h"
#include "guest-allocator/heap/maps.h"

namespace barcuda::guest::managed {
namespace {

static_assert(BARCUDA_DEVICE_MAPPED <= window_begin && window_end <= BARCUDA_DEVICE_END);

// Free addresses of the window: begin -> end. The first that is long enough; neighbours merge.
class Addresses {
  public:
    std::uintptr_t take(std::size_t bytes) {
        std::lock_guard lock(mutex_);
        if (!opened_) open();
        for (auto at = free_.begin(); at != free_.end(); ++at) {
            const auto [begin, end] = *at;
            if (end - begin < bytes) continue;
            free_.erase(at);
            if (begin + bytes < end) free_[begin + bytes] = end;
            return begin;
        }
        return 0;
    }
    void give(std::uintptr_t begin, std::size_t bytes) {
        std::lock_guard lock(mutex_);
        std::uintptr_t end = begin + bytes;
        if (const auto next = free_.find(end); next != free_.end()) end = next->second, free_.erase(next);
        if (auto before = free_.lower_bound(begin); before != free_.begin() && (--before)->second == begin)
            before->second = end;
        else free_[begin] = end;
    }

  private:
    // What this process has reserved for the device: nothing else may lie there, or a mapping of ours would replace it.
    void open() {
        opened_ = true;
        heap::Maps maps;
        std::uintptr_t end = 0;
        for (heap::Mapping m; maps.next(m) && m.begin < window_end;) {
            if (m.end <= window_begin || m.readable || m.writable || m.inode) continue;
            const std::uintptr_t first = std::max(m.begin, window_begin), last = std::min(m.end, window_end);
            const std::uintptr_t begin = (first + unit - 1) & ~(unit - 1);
            end = last & ~(unit - 1);
            if (begin < end && !(taken.count() && taken.overlap(begin, end))) free_[begin] = end;
        }
    }
    Mutex mutex_;
    bool opened_ = false;
    std::map<std::uintptr_t, std::uintptr_t> free_;
};
Addresses& addresses() {
    static auto& all = *new Addresses;  // never destroyed: programs free memory in static destructors
    return all;
}

CUresult open_to(CUdevice device, const Home& home) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return unannounced<Op::cuMemSetAccess>(home.begin, home.bytes(), &access, std::size_t{1});
}

// Device memory at the home's address. False: nothing is left of the attempt.
bool map_there(const Home& home) {
    const std::size_t bytes = home.bytes();
    const CUdevice device = device_of(home.context);
    CUdeviceptr got = 0;
    if (unannounced<Op::cuMemAddressReserve>(&got, bytes, std::size_t{0}, home.begin, 0ull) != CUDA_SUCCESS)
        return false;
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory = 0;
    bool done = got == home.begin && unannounced<Op::cuMemCreate>(&memory, bytes, &what, 0ull) == CUDA_SUCCESS;
    if (done) {
        done = unannounced<Op::cuMemMap>(got, bytes, std::size_t{0}, memory, 0ull) == CUDA_SUCCESS;
        unannounced<Op::cuMemRelease>(memory);  // it lives as long as it is mapped
        bool reached = done && open_to(device, home) == CUDA_SUCCESS;
        for (const CUcontext context : living_contexts())
            if (reached && device_of(context) != device) reached = open_to(device_of(context), home) == CUDA_SUCCESS;
        if (done && !reached) unannounced<Op::cuMemUnmap>(got, bytes), done = false;
    }
    if (!done) unannounced<Op::cuMemAddressFree>(got, bytes);
    return done;
}

// Whether all devices that the program sees reach each other's memory.
bool all_are_peers() {
    static const bool are = [] {
        const int count = Client::current()->device_count();
        for (CUdevice a = 0; a < count; ++a)
            for (CUdevice b = 0; b < count; ++b) {
                int can = 1;
                if (a != b && (unannounced<Op::cuDeviceCanAccessPeer>(&can, a, b) != CUDA_SUCCESS || !can))
                    return false;
            }
        return true;
    }();
    return are;
}

}  // namespace

// The pages of a run appear at the address as registered memory's do (heap/registered): a second mapping of them, moved.
bool map_here(Home& home) noexcept {
    const std::size_t bytes = home.bytes();
    auto* const at = reinterpret_cast<std::byte*>(home.begin);
    auto* const run = static_cast<std::byte*>(heap::staging_alloc(bytes));
    if (!run) return false;
    const heap::Inside inside;
    const std::size_t done = heap::each_granule(run, bytes, [&](std::size_t from, std::size_t part) {
        std::byte* const again = Client::current()->alias({run + from, part});
        // A forked child has no managed memory, as under NVIDIA's driver. Where the CPU is not to touch it cannot: not
        // every kernel lets a device's pages be protected.
        if (again && !madvise(again, part, MADV_DONTFORK) && !mprotect(again, part, PROT_NONE) &&
            mremap(again, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, at + from) == at + from)
            return true;
        if (again) munmap(again, part);
        return false;
    });
    home.alias = run;
    if (done < bytes) unmap_here(home);
    return done == bytes;
}

// Back to what reserve_window() made of it.
void unmap_here(Home& home) noexcept {
    mmap(reinterpret_cast<void*>(home.begin), home.bytes(), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    heap::staging_free(std::exchange(home.alias, nullptr));
}

Home* make_home(std::size_t bytes) noexcept {
    if (!all_are_peers()) return nullptr;
    const std::uintptr_t at = addresses().take(bytes);
    if (!at) return nullptr;
    auto home = std::make_unique<Home>(at, bytes, current_context());
    home->young = true;
    if (map_there(*home)) {
        if (map_here(*home)) return home.release();
        unannounced<Op::cuMemUnmap>(at, bytes);
        unannounced<Op::cuMemAddressFree>(at, bytes);
    }
    addresses().give(at, bytes);
    if (logs_debug())
        log_line("managed memory of %zu MiB stays in the region: the GPU has no room for it, or not at %p", bytes >> 20,
                 reinterpret_cast<void*>(at));
    return nullptr;
}

void remove_home(Home* home) noexcept {
    const std::unique_ptr<Home> gone(home);
    unmap_here(*home);
    if (home->of_variables) return;
    // Addresses that the worker may still have are not used again.
    if (unannounced<Op::cuMemUnmap>(home->begin, home->bytes()) == CUDA_SUCCESS &&
        unannounced<Op::cuMemAddressFree>(home->begin, home->bytes()) == CUDA_SUCCESS)
        addresses().give(home->begin, home->bytes());
}

void let_reach(CUdevice device, const Home& home) noexcept { open_to(device, home); }

}  // namespace barcuda::guest::managed
