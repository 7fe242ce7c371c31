// SPDX-License-Identifier: Apache-2.0
// pool_calls.cc: cuMemAllocAsync, cuMemFreeAsync and cuMemPool*. (Sharing of pools with other processes:
// pool_sharing_calls.cc)
#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph_memory.h"
#include "soft-gpu/driver/pool.h"
#include "soft-gpu/driver/shareable.h"

namespace barcuda::soft::driver {

bool Pool::take(std::uint64_t bytes) {
    const std::uint64_t now = used += bytes;
    if (limit != 0 && now > limit) {
        used -= bytes;
        return false;
    }
    for (std::uint64_t high = used_high; high < now && !used_high.compare_exchange_weak(high, now);) {}
    return true;
}

namespace {

CUdeviceptr allocate(const std::shared_ptr<Pool>& pool, std::size_t size, Context& context) {
    Memory& memory = Driver::get().memory;
    const std::size_t bytes = Heap::rounded(size);
    require(pool->imported < 0);
    memory.collect();  // a pool gives again what it has
    if (!pool->take(bytes)) fail(CUDA_ERROR_OUT_OF_MEMORY);
    try {
        return memory.allocate({.size = size,
                                .kind = Allocation::Kind::device,
                                .context = context.handle(),
                                .device = pool->device,
                                .pool = pool});
    } catch (const Error&) {
        pool->give(bytes);
        throw;
    }
}

void give_back(CUdeviceptr address) {
    if (free_graph_memory(address)) return;
    Memory& memory = Driver::get().memory;
    const auto gone = memory.find(address);
    if (const auto pool = memory.leave(address)) pool->give(Heap::rounded(gone->size));
}

// Where a device that does not exist is an invalid value.
Device& device_of_pools(CUdevice device) {
    require(device >= 0 && device < Driver::get().settings.devices);
    return Driver::get().device(device);
}

Device& device_of_pool(const CUmemLocation* location, CUmemAllocationType type) {
    require(location != nullptr);
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        refuse("a memory pool that is not a device's");
    return Driver::get().device(location->id);
}

// As large as the device: unused memory costs nothing.
std::unique_ptr<Heap> heap_for_others(const CUmemPoolProps& pool) {
    const std::size_t size = Driver::get().memory.total() / 4096 * 4096;  // whole pages
    Label label{Label::What::pool, size, {}};
    label.properties.type = pool.allocType;
    label.properties.requestedHandleTypes = pool.handleTypes;
    label.properties.location = pool.location;
    return std::make_unique<Heap>(0, size, make_shareable(label));
}

CUmemoryPool handle_of(const Pool& pool) { return Handles<CUmemoryPool, Pool>::handle_of(pool); }

void set_current(Device& device, CUdevice ordinal, CUmemoryPool handle) {
    auto pool = Driver::get().pools.find(handle);
    require(pool->device == ordinal && pool->imported < 0);
    device.set_current(std::move(pool));
}

void allocate_in_order(CUdeviceptr* made, std::size_t size, const std::shared_ptr<Pool>& pool, CUstream handle) {
    require(made != nullptr);
    const auto stream = stream_of(handle);
    if (size == 0) {  // as on hardware, except in a graph
        std::lock_guard lock(stream->context().order);
        require(!stream->capture);
        *made = 0;
        return;
    }
    {
        std::lock_guard lock(stream->context().order);
        if (stream->capture) {
            CUDA_MEM_ALLOC_NODE_PARAMS asked{};
            asked.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            asked.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, stream->context().device};
            asked.bytesize = size;
            auto node = allocate_in_graph(asked, stream->context().handle());
            *made = node->memory->address;
            capture_operation(*stream, std::move(node));
            return;
        }
    }
    try {
        *made = allocate(pool, size, stream->context());
    } catch (const Error& error) {
        // Memory that streams will free is not free yet: wait for them, and try again.
        if (error.code != CUDA_ERROR_OUT_OF_MEMORY) throw;
        stream->context().synchronize();
        *made = allocate(pool, size, stream->context());
    }
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
    return api([&] {
        const int device = stream_of(hStream)->context().device;
        allocate_in_order(dptr, bytesize, Driver::get().device(device).current(), hStream);
    });
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    return api([&] { allocate_in_order(dptr, bytesize, Driver::get().pools.find(pool), hStream); });
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    return api([&] {
        const auto stream = stream_of(hStream);
        if (dptr == 0) return;
        {
            std::lock_guard lock(stream->context().order);
            if (stream->capture) return capture_operation(*stream, free_in_graph(dptr));
        }
        const auto target = Driver::get().memory.find(dptr);
        require(target && target->base == dptr && target->freeable());
        note_free(dptr);
        stream->context().post(*stream, std::make_shared<Action>([=](Context&) { give_back(dptr); }, true));
    });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
    return api([&] {
        require(pool_out);
        *pool_out = handle_of(*Driver::get().device(dev).default_pool);
    });
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
    return api([&] {
        require(pool);
        *pool = handle_of(*device_of_pools(dev).current());
    });
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    return api([&] { set_current(device_of_pools(dev), dev, pool); });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
    return api([&] {
        Device& device = device_of_pool(location, type);
        require(pool_out);
        *pool_out = handle_of(*device.default_pool);
    });
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
    return api([&] {
        Device& device = device_of_pool(location, type);
        require(pool);
        *pool = handle_of(*device.current());
    });
}
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
    return api([&] { set_current(device_of_pool(location, type), location->id, pool); });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
    return api([&] {
        require(pool && poolProps && poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED);
        require(poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
        require(poolProps->location.id >= 0 && poolProps->location.id < Driver::get().settings.devices);
        if (poolProps->handleTypes & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
            refuse("a memory pool's handle other than a POSIX file descriptor");
        auto made = std::make_shared<Pool>(poolProps->location.id);
        made->limit = poolProps->maxSize;
        if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE) made->own = heap_for_others(*poolProps);
        *pool = Driver::get().pools.add(made);
    });
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    return api([&] {
        Driver& driver = Driver::get();
        Device& device = driver.device(driver.pools.find(pool)->device);
        require(pool != handle_of(*device.default_pool));
        const auto gone = driver.pools.take(pool);  // lives until its last allocation is freed
        if (device.current() == gone) device.set_current(device.default_pool);
    });
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
    return api([&] {
        Driver::get().pools.find(pool);
        Driver::get().memory.collect();
    });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return api([&] {
        require(value);
        Pool& of = *Driver::get().pools.find(pool);
        const auto flag = [&] { return *static_cast<const int*>(value) != 0; };
        switch (attr) {
            case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: of.follow_events = flag(); return;
            case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: of.opportunistic = flag(); return;
            case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: of.internal_dependencies = flag(); return;
            case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
                of.release_threshold = *static_cast<const cuuint64_t*>(value);
                return;
            case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
                require(*static_cast<const cuuint64_t*>(value) == 0);  // CUDA allows only a reset
                of.used_high = of.used.load();
                return;
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
    return api([&] {
        require(value);
        const Pool& of = *Driver::get().pools.find(pool);
        const auto flag = [&](int set) { *static_cast<int*>(value) = set; };
        const auto bytes = [&](std::uint64_t count) { *static_cast<cuuint64_t*>(value) = count; };
        switch (attr) {
            case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return flag(of.follow_events);
            case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return flag(of.opportunistic);
            case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return flag(of.internal_dependencies);
            case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return bytes(of.release_threshold);
            case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
            case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return bytes(of.used);
            case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return bytes(of.used_high);
            default: fail(CUDA_ERROR_INVALID_VALUE);
        }
    });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
    return api([&] {
        require(map || count == 0);
        Pool& of = *Driver::get().pools.find(pool);
        for (std::size_t i = 0; i < count; ++i) {
            if (map[i].location.type == CU_MEM_LOCATION_TYPE_HOST || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
                fail(CUDA_ERROR_NOT_SUPPORTED);
            require(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
            require_device(map[i].location.id);
            require(map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
                    map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            // The pool's own device always has access; revoking it is an error, as on hardware.
            require(map[i].location.id != of.device || map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                    CUDA_ERROR_INVALID_DEVICE);
            of.access[static_cast<std::size_t>(map[i].location.id)] = map[i].flags;
        }
    });
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
    return api([&] {
        require(flags && location);
        if (location->type == CU_MEM_LOCATION_TYPE_HOST) {
            Driver::get().pools.find(memPool);
            *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
            return;
        }
        require(location->type == CU_MEM_LOCATION_TYPE_DEVICE);
        const Pool& of = *Driver::get().pools.find(memPool);
        require_device(location->id);
        *flags = location->id == of.device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                           : of.access[static_cast<std::size_t>(location->id)].load();
    });
}
