// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/host_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "guest-allocator/client/mutex.h"
#include "guest-allocator/client/observer.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/pinned.h"
#include "guest-allocator/driver/streams.h"
#include "guest-allocator/heap/heap.h"

namespace barcuda::guest::host_pool {
namespace {

constexpr std::size_t unit = 512;  // bytes: what a device's pool rounds to

struct Counter {
    std::uint64_t now = 0, high = 0;
    void add(std::uint64_t bytes) { high = std::max(high, now += bytes); }
};

struct HostPool {
    CUmemPoolProps properties;
    int reuse[3] = {1, 1, 1};  // kept for the program; what they allow is never needed here
    std::uint64_t threshold = 0;
    Counter used, reserved;  // bytes; reserved: with those that a stream has yet to reach
    std::set<int> devices;   // that the program has given access
    bool standard = false;
};
using Owner = std::shared_ptr<HostPool>;  // a destroyed pool ends with its last block

struct Block {
    Owner pool;
    std::size_t bytes;
};
// Freed in a stream's order.
struct Freed {
    void* memory;
    Block block;
    std::uint64_t order;  // streams.h: order_of()
    CUcontext context;    // its event's; with its end the event is gone, and another may have its handle
    std::uint32_t ends;
    CUevent reached;

    bool is_done() const {
        if (ends_of(context) != ends) return true;
        const InContext in(context);
        if (cuEventQuery(reached) == CUDA_ERROR_NOT_READY) return false;
        cuEventDestroy(reached);
        return true;
    }
};

using Place = std::pair<CUmemLocationType, int>;
Place place_of(const CUmemLocation& l) { return {l.type, l.type == CU_MEM_LOCATION_TYPE_HOST ? 0 : l.id}; }

struct HostPools {
    Mutex mutex;
    std::map<CUmemoryPool, Owner> living;
    std::map<Place, CUmemoryPool> standard, current;
    std::unordered_map<void*, Block> blocks;
    std::vector<Freed> freed;

    // Releases what streams have reached.
    void collect() {
        std::erase_if(freed, [](Freed& f) {
            if (!f.is_done()) return false;
            f.block.pool->reserved.now -= f.block.bytes;
            heap::pinned_free(f.memory);
            return true;
        });
    }
    HostPool* find(CUmemoryPool pool) {
        const auto at = living.find(pool);
        return at == living.end() ? nullptr : at->second.get();
    }
    CUmemoryPool add(const CUmemPoolProps& properties) {
        const auto pool = std::make_shared<HostPool>();
        pool->properties = properties;
        const auto handle = reinterpret_cast<CUmemoryPool>(pool.get());
        living.emplace(handle, pool);
        return handle;
    }
    CUmemoryPool standard_at(const CUmemLocation& place) {
        CUmemoryPool& pool = standard[place_of(place)];
        if (!pool) {
            CUmemPoolProps properties{};
            properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location = place;
            pool = add(properties);
            find(pool)->standard = true;
        }
        return pool;
    }
};
HostPools& pools() {
    static auto& all = *new HostPools;
    return all;
}
struct LockedHostPools {
    HostPools& all = pools();
    std::lock_guard<Mutex> lock{all.mutex};
    HostPools* operator->() const { return &all; }
};

// The counter that an attribute names, and whether it is the mark of its highest value.
Counter* counter_of(HostPool& pool, CUmemPool_attribute attribute, bool& high) {
    high = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    switch (attribute) {
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &pool.reserved;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &pool.used;
        default: return nullptr;
    }
}
int* reuse_of(HostPool& pool, CUmemPool_attribute attribute) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return &pool.reuse[0];
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return &pool.reuse[1];
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return &pool.reuse[2];
        default: return nullptr;
    }
}

// Whose the memory and the events are that are asked for in this stream.
CUresult find_context(CUstream stream, CUcontext& context) {
    const CUcontext its = context_of(stream);
    if (!its) return current_context() ? unknown_object(stream) : CUDA_ERROR_INVALID_CONTEXT;
    context = owner_of(its);
    return CUDA_SUCCESS;
}

}  // namespace

bool is_one(CUmemoryPool pool) noexcept { return pool && LockedHostPools()->find(pool); }

CUmemoryPool create(const CUmemPoolProps& properties) noexcept { return LockedHostPools()->add(properties); }

CUmemoryPool standard(const CUmemLocation& place) noexcept { return LockedHostPools()->standard_at(place); }

CUmemoryPool current(const CUmemLocation& place) noexcept {
    const LockedHostPools all;
    const auto at = all->current.find(place_of(place));
    return at == all->current.end() ? all->standard_at(place) : at->second;
}

CUresult set_current(const CUmemLocation& place, CUmemoryPool pool) noexcept {
    const LockedHostPools all;
    const HostPool* const p = all->find(pool);
    if (!p || place_of(p->properties.location) != place_of(place)) return CUDA_ERROR_INVALID_VALUE;
    all->current[place_of(place)] = pool;
    return CUDA_SUCCESS;
}

CUresult destroy(CUmemoryPool pool) noexcept {
    const LockedHostPools all;
    const HostPool* const p = all->find(pool);
    if (!p || p->standard) return CUDA_ERROR_INVALID_VALUE;
    std::erase_if(all->current, [&](const auto& named) { return named.second == pool; });
    all->living.erase(pool);
    all->collect();
    return CUDA_SUCCESS;
}

CUresult trim_to(CUmemoryPool pool) noexcept {
    const LockedHostPools all;
    if (!all->find(pool)) return CUDA_ERROR_INVALID_VALUE;
    all->collect();  // more is not kept
    return CUDA_SUCCESS;
}

CUresult get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) noexcept {
    const LockedHostPools all;
    HostPool* const p = all->find(pool);
    if (!p || !value) return CUDA_ERROR_INVALID_VALUE;
    all->collect();
    bool high;
    if (const Counter* const counter = counter_of(*p, attribute, high)) {
        memcpy(value, high ? &counter->high : &counter->now, sizeof counter->now);
    } else if (const int* const reuse = reuse_of(*p, attribute)) {
        memcpy(value, reuse, sizeof *reuse);
    } else {
        if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
        memcpy(value, &p->threshold, sizeof p->threshold);
    }
    return CUDA_SUCCESS;
}

CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void* value) noexcept {
    const LockedHostPools all;
    HostPool* const p = all->find(pool);
    if (!p || !value) return CUDA_ERROR_INVALID_VALUE;
    bool high;
    if (Counter* const counter = counter_of(*p, attribute, high)) {
        std::uint64_t zero;  // no other value may be set
        memcpy(&zero, value, sizeof zero);
        if (!high || zero) return CUDA_ERROR_INVALID_VALUE;
        counter->high = counter->now;
    } else if (int* const reuse = reuse_of(*p, attribute)) {
        memcpy(reuse, value, sizeof *reuse);
        *reuse = *reuse != 0;
    } else {
        if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_INVALID_VALUE;
        memcpy(&p->threshold, value, sizeof p->threshold);
    }
    return CUDA_SUCCESS;
}

CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc* list, std::size_t count) noexcept {
    int devices = 0;
    if (const CUresult r = cuDeviceGetCount(&devices); r != CUDA_SUCCESS) return r;
    const LockedHostPools all;
    HostPool* const p = all->find(pool);
    if (!p || (count && !list)) return CUDA_ERROR_INVALID_VALUE;
    std::set<int> reach = p->devices;
    for (const CUmemAccessDesc& d : std::vector(list, list + count)) {
        if (d.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_NOT_SUPPORTED;
        const bool allow = d.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!allow && d.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_INVALID_VALUE;
        if (d.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {  // its own place has it always
            if (!allow || place_of(d.location) != place_of(p->properties.location)) return CUDA_ERROR_INVALID_VALUE;
            continue;
        }
        if (d.location.id < 0 || d.location.id >= devices) return CUDA_ERROR_INVALID_DEVICE;
        if (allow) reach.insert(d.location.id);
        else reach.erase(d.location.id);
    }
    p->devices = std::move(reach);
    return CUDA_SUCCESS;
}

CUresult get_access(CUmemAccess_flags* flags, CUmemoryPool pool, const CUmemLocation* place) noexcept {
    int devices = 0;
    if (const CUresult r = cuDeviceGetCount(&devices); r != CUDA_SUCCESS) return r;
    const LockedHostPools all;
    const HostPool* const p = all->find(pool);
    if (!p || !flags || !place) return CUDA_ERROR_INVALID_VALUE;
    const bool of_a_device = place->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (of_a_device && (place->id < 0 || place->id >= devices)) return CUDA_ERROR_INVALID_DEVICE;
    const bool reaches = of_a_device ? p->devices.contains(place->id) : true;
    *flags = reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* p, std::size_t bytes, CUmemoryPool pool, CUstream stream) noexcept {
    if (!p) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context;
    if (const CUresult r = find_context(stream, context); r != CUDA_SUCCESS) return r;
    *p = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    if (bytes > SIZE_MAX - unit) return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = (bytes + unit - 1) / unit * unit;
    const InContext in(context);
    const std::uint64_t order = order_of(stream);
    LockedHostPools all;
    const auto from = all->living.find(pool);
    if (from == all->living.end()) return CUDA_ERROR_INVALID_VALUE;
    HostPool& of = *from->second;
    all->collect();
    const std::size_t most = of.properties.maxSize;
    if (most && (bytes > most || of.used.now > most - bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto again = std::ranges::find_if(all->freed, [&](const Freed& f) {
        return f.block.pool.get() == &of && f.block.bytes == bytes && f.order == order && ends_of(f.context) == f.ends;
    });
    void* memory = nullptr;
    if (again != all->freed.end()) {
        memory = again->memory;
        const InContext its(again->context);
        cuEventDestroy(again->reached);
        all->freed.erase(again);
    } else {
        const unsigned flags = with_device(pool_mark, device_of(context));
        if (!(memory = heap::pinned_alloc(bytes, flags, unit)) && !all->freed.empty()) {
            wait_for_contexts_quietly();
            all->collect();
            memory = heap::pinned_alloc(bytes, flags, unit);
        }
        if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
        of.reserved.add(bytes);
    }
    of.used.add(bytes);
    all->blocks.emplace(memory, Block{from->second, bytes});
    *p = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
}

CUresult free_in(void* p, CUstream stream) noexcept {
    CUcontext context;
    if (const CUresult r = find_context(stream, context); r != CUDA_SUCCESS) return r;
    const InContext in(context);
    const std::uint64_t order = order_of(stream);
    const LockedHostPools all;
    const auto at = all->blocks.find(p);
    if (at == all->blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    CUevent reached = nullptr;
    if (const CUresult r = cuEventCreate(&reached, CU_EVENT_DISABLE_TIMING); r != CUDA_SUCCESS) return r;
    if (const CUresult r = cuEventRecord(reached, stream); r != CUDA_SUCCESS) {
        cuEventDestroy(reached);
        return r;
    }
    at->second.pool->used.now -= at->second.bytes;
    all->freed.push_back({p, std::move(at->second), order, context, ends_of(context), reached});
    all->blocks.erase(at);
    return CUDA_SUCCESS;
}

CUresult free_now(void* p) noexcept {
    const CUresult waited = wait_for_devices();
    const LockedHostPools all;
    const auto at = all->blocks.find(p);
    if (at == all->blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    at->second.pool->used.now -= at->second.bytes;
    at->second.pool->reserved.now -= at->second.bytes;
    all->blocks.erase(at);
    heap::pinned_free(p);
    all->collect();
    return waited;
}

CUmemoryPool pool_of(const void* p) noexcept {
    const LockedHostPools all;
    const auto at = all->blocks.find(const_cast<void*>(p));
    return at == all->blocks.end() ? nullptr : reinterpret_cast<CUmemoryPool>(at->second.pool.get());
}

}  // namespace barcuda::guest::host_pool
