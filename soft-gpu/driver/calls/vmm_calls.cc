// SPDX-License-Identifier: Apache-2.0
// vmm_calls.cc: virtual memory management. An address range is reserved without memory; physical memory is a memory
// file; mapping one into the other and granting access makes it device memory. Other processes get the file. Addresses
// that have been the device's stay reserved for it: stale uses (a texture, a graph's library call) meet a fault, or
// memory that the program has mapped there since, but never other memory of the process.
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/shareable.h"

namespace barcuda::soft::driver {
namespace {

// as on hardware: programs round to the granularity that they query, and to no less
constexpr std::size_t granule = 2 << 20;

struct Reservations {
    std::mutex mutex;
    std::map<std::uintptr_t, std::size_t> ranges;
    std::map<std::uintptr_t, std::size_t> spare;  // returned ranges, for later reservations. Neighbours are merged

    // Takes [at, at + size) from a spare range that contains it; 0: none. `wish`: only there; 0: anywhere.
    std::uintptr_t take(std::uintptr_t wish, std::size_t size, std::size_t alignment) {
        for (auto range = spare.begin(); range != spare.end(); ++range) {
            const auto [start, length] = *range;
            const std::uintptr_t at = wish ? wish : (start + alignment - 1) & ~(alignment - 1);
            if (at < start || at - start > length || size > length - (at - start)) continue;
            spare.erase(range);
            if (at != start) spare[start] = at - start;
            if (at - start + size != length) spare[at + size] = length - (at - start) - size;
            return at;
        }
        return 0;
    }
    void give(std::uintptr_t start, std::size_t size) {
        auto next = spare.upper_bound(start);
        if (next != spare.end() && next->first == start + size) {
            size += next->second;
            next = spare.erase(next);
        }
        if (next != spare.begin())
            if (const auto before = std::prev(next); before->first + before->second == start) {
                before->second += size;
                return;
            }
        spare[start] = size;
    }

    std::pair<std::uintptr_t, std::size_t> around(std::uintptr_t address) const {
        const auto after = ranges.upper_bound(address);
        if (after == ranges.begin()) return {};
        return *std::prev(after);
    }

    bool contain(std::uintptr_t address, std::size_t size) {
        auto after = ranges.upper_bound(address);
        if (after == ranges.begin()) return false;
        --after;
        return address - after->first <= after->second && size <= after->second - (address - after->first);
    }
};
Reservations& reservations() {
    static auto* const all = new Reservations;
    return *all;
}

bool whole(std::size_t size) { return size != 0 && size % granule == 0; }

// Back to reserved address space without memory.
void vacate(std::uintptr_t address, std::size_t size) {
    mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
}

// Unused address space; 0: it is in use.
std::uintptr_t fresh_at(std::uintptr_t address, std::size_t size) {
    void* const at = mmap(reinterpret_cast<void*>(address), size, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return at == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(at);
}
std::uintptr_t fresh(std::size_t size, std::size_t alignment) {
    void* const at = mmap(nullptr, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY);
    const auto start = reinterpret_cast<std::uintptr_t>(at), aligned = (start + alignment - 1) & ~(alignment - 1);
    if (aligned != start) munmap(at, aligned - start);
    munmap(reinterpret_cast<void*>(aligned + size), start + alignment - aligned);
    return aligned;
}

bool on_host(const CUmemLocation& location) {
    return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

void require_properties(const CUmemAllocationProp* properties) {
    require(properties && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED);
    if (!on_host(properties->location)) {
        require(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        require_device(properties->location.id);
    }
    if (properties->requestedHandleTypes & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        refuse("a memory handle other than a POSIX file descriptor");
}

// Every byte of the range must be mapped; `change` gets each mapping, which must be in the range as a whole.
template <class Change> void for_mappings(CUdeviceptr start, std::size_t size, const Change& change) {
    require(size != 0);
    for (std::uintptr_t at = start; at < start + size;) {
        const auto mapping = Driver::get().memory.find(at);
        require(mapping && mapping->kind == Allocation::Kind::mapped && mapping->base == at &&
                mapping->size <= start + size - at);
        at += mapping->size;
    }
    for (std::uintptr_t at = start; at < start + size;) {
        const Allocation mapping = *Driver::get().memory.find(at);
        at += mapping.size;
        change(mapping);
    }
}

}  // namespace

std::pair<std::uintptr_t, std::size_t> reserved_around(std::uintptr_t mapped) {
    Reservations& all = reservations();
    std::lock_guard lock(all.mutex);
    return all.around(mapped);
}

}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
    return api([&] {
        require(granularity &&
                (option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
        require(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED);  // the same for every location
        *granularity = granule;
    });
}

// ---- addresses ------------------------------------------------------------------------------------------------------

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
    return api([&] {
        require(ptr && whole(size) && flags == 0 && (alignment & (alignment - 1)) == 0 &&
                size < (std::size_t{1} << 46));
        alignment = std::max(alignment, granule);
        Reservations& all = reservations();
        std::lock_guard lock(all.mutex);
        const bool wished = addr != 0 && addr % alignment == 0;
        std::uintptr_t at = wished ? all.take(addr, size, alignment) : 0;
        if (wished && !at) at = fresh_at(addr, size);  // elsewhere if that is in use
        if (!at) at = all.take(0, size, alignment);
        if (!at) at = fresh(size, alignment);
        all.ranges[at] = size;
        *ptr = at;
    });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    return api([&] {
        Reservations& all = reservations();
        std::lock_guard lock(all.mutex);
        const auto found = all.ranges.find(ptr);
        require(found != all.ranges.end() && found->second == size);
        require(!Driver::get().memory.first_in(ptr, size));  // something is still mapped
        all.ranges.erase(found);
        all.give(ptr, size);
    });
}

// ---- physical memory ------------------------------------------------------------------------------------------------

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
    return api([&] {
        require(handle && whole(size) && flags == 0);
        require_properties(prop);
        if (on_host(prop->location)) refuse("physical memory that is not a device's");
        auto physical = std::make_shared<Physical>(*prop, size, Driver::get().memory);
        *handle = Driver::get().physicals.add(std::move(physical));
    });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    return api([&] {  // the memory is freed when its last mapping ends
        if (--Driver::get().physicals.find(handle)->holders == 0) Driver::get().physicals.take(handle);
    });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
    return api([&] {
        require(handle);
        const auto mapping = Driver::get().memory.find(reinterpret_cast<std::uintptr_t>(addr));
        require(mapping && mapping->physical);
        ++mapping->physical->holders;
        *handle = Driver::get().physicals.add(mapping->physical);
    });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
    return api([&] {
        require(prop);
        *prop = Driver::get().physicals.find(handle)->properties;
    });
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
    return api([&] {
        require(shareableHandle && flags == 0);
        const auto physical = Driver::get().physicals.find(handle);
        require(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                (physical->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        *static_cast<int*>(shareableHandle) = duplicate(physical->file);
    });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
    return api([&] {
        require(handle && shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(osHandle));
        const Label label = label_of(file, Label::What::memory);
        require(whole(label.size));
        *handle =
            Driver::get().physicals.add(std::make_shared<Physical>(label.properties, label.size, duplicate(file)));
    });
}

// ---- mappings -------------------------------------------------------------------------------------------------------

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    return api([&] {
        require(whole(size) && flags == 0 && ptr % granule == 0);
        const auto physical = Driver::get().physicals.find(handle);
        if (offset != 0 || size > physical->size) fail(CUDA_ERROR_NOT_SUPPORTED);  // CUDA reserves the offset
        Reservations& all = reservations();
        std::lock_guard lock(all.mutex);
        require(all.contain(ptr, size) && !Driver::get().memory.first_in(ptr, size));
        if (mmap(reinterpret_cast<void*>(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->file, 0) ==
            MAP_FAILED)
            fail(CUDA_ERROR_OUT_OF_MEMORY);
        madvise(reinterpret_cast<void*>(ptr), size, MADV_DONTFORK);
        Driver::get().memory.adopt({.base = static_cast<std::uintptr_t>(ptr),
                                    .size = size,
                                    .kind = Allocation::Kind::mapped,
                                    .device = physical->properties.location.id,
                                    .accessible = false,
                                    .physical = physical},
                                   CUDA_ERROR_INVALID_VALUE);
    });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    return api([&] {
        Driver& driver = Driver::get();
        driver.synchronize();  // work in flight may use it, as with cuMemFree; it belongs to all devices
        Reservations& all = reservations();
        std::lock_guard lock(all.mutex);
        // What is reserved there and not mapped does not matter; but no mapping may be cut.
        require(whole(size) && all.contain(ptr, size));
        const auto next = [&](std::uintptr_t at) { return driver.memory.first_in(at, ptr + size - at); };
        for (std::uintptr_t at = ptr; at < ptr + size;) {
            const auto mapping = next(at);
            if (!mapping) break;
            require(mapping->base >= at && mapping->size <= ptr + size - mapping->base);
            at = mapping->base + mapping->size;
        }
        while (const auto mapping = next(ptr)) {
            driver.memory.remove(mapping->base, [](const Allocation&) { return true; });
            vacate(mapping->base, mapping->size);
        }
    });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
    return api([&] {
        require(desc && count != 0);
        if (std::any_of(desc, desc + count,
                        [](const CUmemAccessDesc& d) { return d.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE; }))
            Driver::get().synchronize();  // work in flight had more rights
        Reservations& all = reservations();
        std::lock_guard lock(all.mutex);
        for (std::size_t i = 0; i < count; ++i) {
            if (on_host(desc[i].location)) fail(CUDA_ERROR_NOT_SUPPORTED);  // the memory is a device's
            require(desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
            require(desc[i].location.id >= 0 && desc[i].location.id < Driver::get().settings.devices);
            for_mappings(ptr, size, [&](const Allocation& mapping) {
                Driver::get().memory.set_access(mapping.base, desc[i].location.id, desc[i].flags);
            });
        }
    });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
    return api([&] {
        require(flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE);
        require_device(location->id);
        require(ptr != 0);
        const auto mapping = Driver::get().memory.find(ptr);
        *flags = 0;
        require(mapping.has_value());
        if (mapping->kind == Allocation::Kind::mapped) *flags = mapping->access[static_cast<std::size_t>(location->id)];
    });
}
