// SPDX-License-Identifier: Apache-2.0
// backing.cc: makes and releases the memory of a range on both sides. The device's is made by the driver's functions
// for virtual memory, each of which is a command that programs have too: so it counts against a client's limit, and the
// host need not know of managed memory.
#include "guest-allocator/driver/managed/mechanism/backing.h"

#include <sys/mman.h>

#include <memory>
#include <new>
#include <utility>

#include "base/os/maps.h"
#include "guest-allocator/client/command.h"
#include "guest-allocator/client/device_window.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/managed/state/addresses.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest::managed {
namespace {

// The window's addresses, and the calls by which the driver reserves them.
class Reservations {
  public:
    // The address of `bytes` reserved bytes; 0: none are available.
    std::uintptr_t take(std::size_t bytes) {
        std::lock_guard lock(mutex_);
        if (!std::exchange(opened_, true)) open();
        for (int attempts = 0; attempts < 4; ++attempts) {
            if (const std::uintptr_t at = addresses_.take(bytes)) return at;
            const Addresses::Span span = addresses_.propose(bytes);
            if (span.size == 0) return 0;
            CUdeviceptr got = 0;
            if (bare_command<Op::cuMemAddressReserve>(&got, span.size, std::size_t{0}, span.begin, 0ull) !=
                CUDA_SUCCESS) {
                if (!addresses_.refused(span)) return 0;
            } else if (got == span.begin) {
                addresses_.reserved(span);
            } else {
                bare_command<Op::cuMemAddressFree>(got, span.size);  // the worker has something else there
            }
        }
        return 0;
    }
    void give(std::uintptr_t begin, std::size_t bytes) {
        std::lock_guard lock(mutex_);
        addresses_.give(begin, bytes);
    }
    void retire(std::uintptr_t address) {
        std::lock_guard lock(mutex_);
        addresses_.retire(address);
    }

  private:
    // What this process has reserved for the device. Nothing else may lie there, or the range would replace it.
    void open() {
        if (window_begin < windows.mapped || windows.end < window_end) return;  // the driver maps elsewhere
        os::Maps maps;
        for (os::Mapping m; maps.next(m) && m.begin < window_end;) {
            if (m.end <= window_begin || m.readable || m.writable || m.inode) continue;
            const std::uintptr_t first = std::max(m.begin, window_begin), last = std::min(m.end, window_end);
            const std::uintptr_t begin = (first + unit - 1) & ~(unit - 1), end = last & ~(unit - 1);
            if (begin < end && !(taken.count() && taken.overlap(begin, end))) addresses_.add_room(begin, end);
        }
    }
    Mutex mutex_;
    bool opened_ = false;
    Addresses addresses_{unit, std::size_t{64} << 30};
};
Reservations& addresses() {
    static auto& all = *new Reservations;  // never destroyed: programs free memory in static destructors
    return all;
}

CUresult open_to(CUdevice device, const Range& range) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return bare_command<Op::cuMemSetAccess>(range.begin, range.bytes(), &access, std::size_t{1});
}

enum class Mapped { yes, no_memory, no_addresses, stuck };

// Device memory at the range's address. After no_memory and no_addresses nothing is left of the attempt.
Mapped map_device_side(const Range& range) {
    const std::size_t bytes = range.bytes();
    const CUdevice device = device_of(range.context);
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle memory = 0;
    if (bare_command<Op::cuMemCreate>(&memory, bytes, &what, 0ull) != CUDA_SUCCESS) return Mapped::no_memory;
    const CUresult r = bare_command<Op::cuMemMap>(range.begin, bytes, std::size_t{0}, memory, 0ull);
    bare_command<Op::cuMemRelease>(memory);  // it lives as long as it is mapped
    if (r != CUDA_SUCCESS) return r == CUDA_ERROR_INVALID_VALUE ? Mapped::no_addresses : Mapped::no_memory;
    bool reached = open_to(device, range) == CUDA_SUCCESS;
    for (const CUcontext context : living_contexts())
        if (reached && device_of(context) != device) reached = open_to(device_of(context), range) == CUDA_SUCCESS;
    if (reached) return Mapped::yes;
    return bare_command<Op::cuMemUnmap>(range.begin, bytes) == CUDA_SUCCESS ? Mapped::no_memory : Mapped::stuck;
}

// Whether all devices that the program sees reach each other's memory.
bool all_are_peers() {
    static const bool are = [] {
        const int count = Client::current()->device_count();
        for (CUdevice a = 0; a < count; ++a)
            for (CUdevice b = 0; b < count; ++b) {
                int can = 1;
                if (a != b && (bare_command<Op::cuDeviceCanAccessPeer>(&can, a, b) != CUDA_SUCCESS || !can))
                    return false;
            }
        return true;
    }();
    return are;
}

}  // namespace

// The pages appear at the address as registered memory's do (heap/registered): a second mapping of them is moved there.
bool map_host_side(Range& range) noexcept {
    const std::size_t bytes = range.bytes();
    auto* const at = reinterpret_cast<std::byte*>(range.begin);
    auto* const run = static_cast<std::byte*>(heap::staging_alloc(bytes));
    if (!run) return false;
    const heap::Inside inside;
    const std::size_t done = heap::each_granule(run, bytes, [&](std::size_t from, std::size_t part) {
        std::byte* const again = Client::current()->alias({run + from, part});
        // A forked child has no managed memory, as under NVIDIA's driver. Memory that cannot be protected cannot be
        // used: not every kernel lets a device's pages be protected.
        if (again && !madvise(again, part, MADV_DONTFORK) && !mprotect(again, part, PROT_NONE) &&
            mremap(again, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, at + from) == at + from)
            return true;
        if (again) munmap(again, part);
        return false;
    });
    range.alias = run;
    if (done < bytes) unmap_host_side(range);
    return done == bytes;
}

// Restores what reserve_window() has put there.
void unmap_host_side(Range& range) noexcept {
    mmap(reinterpret_cast<void*>(range.begin), range.bytes(), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    heap::staging_free(std::exchange(range.alias, nullptr));
}

std::unique_ptr<Range> make_range(std::size_t bytes) noexcept {
    if (!all_are_peers()) return nullptr;
    for (int attempts = 0; attempts < 2; ++attempts) {
        const std::uintptr_t at = addresses().take(bytes);
        if (!at) break;
        auto range = std::make_unique<Range>(at, bytes, owner_of(current_context()));
        range->untouched = true;
        // The region's pages first: to unmap device memory again may wait for the device.
        if (!map_host_side(*range)) {
            addresses().give(at, bytes);
            break;
        }
        const Mapped mapped = map_device_side(*range);
        if (mapped == Mapped::yes) return range;
        unmap_host_side(*range);
        if (mapped == Mapped::no_addresses) {
            addresses().retire(at);
            continue;
        }
        if (mapped == Mapped::no_memory) addresses().give(at, bytes);
        break;
    }
    if (logs_debug())
        log_line("managed memory of %zu MiB stays in the region: the GPU has no room for it, or no address",
                 bytes >> 20);
    return nullptr;
}

void release(std::unique_ptr<Range> range) noexcept {
    unmap_host_side(*range);
    if (range->of_variables) return;
    // Addresses where the worker may still have memory are not used again.
    if (bare_command<Op::cuMemUnmap>(range->begin, range->bytes()) == CUDA_SUCCESS)
        addresses().give(range->begin, range->bytes());
}

void let_reach(CUdevice device, const Range& range) noexcept { open_to(device, range); }

}  // namespace barcuda::guest::managed
