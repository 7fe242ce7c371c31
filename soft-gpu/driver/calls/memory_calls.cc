// SPDX-License-Identifier: Apache-2.0
// memory_calls.cc: cuMemAlloc*, host memory, managed memory and queries about pointers.
#include <sys/mman.h>

#include <cstring>

#include "soft-gpu/driver/context.h"
#include "soft-gpu/driver/driver.h"
#include "soft-gpu/driver/graph_memory.h"
#include "soft-gpu/driver/pool.h"

namespace barcuda::soft::driver {
namespace {

using Kind = Allocation::Kind;
constexpr std::size_t page = 4096;
constexpr std::size_t pitch_alignment = 512;  // as on hardware: textures and coalesced rows rely on it

void allocate(CUdeviceptr* made, std::size_t size, Kind kind, unsigned flags) {
    require(made && size != 0);
    const auto context = current_context();
    *made = Driver::get().memory.allocate(
        {.size = size, .kind = kind, .flags = flags, .context = context->handle(), .device = context->device});
}

void allocate_host(void** made, std::size_t size, unsigned flags) {
    require(made && size != 0);
    constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    require((flags & ~known) == 0);
    const auto context = current_context();
    if (size > (std::size_t{1} << 46)) fail(CUDA_ERROR_OUT_OF_MEMORY);
    const std::size_t whole = (size + page - 1) & ~(page - 1);
    void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail(CUDA_ERROR_OUT_OF_MEMORY);
    Driver::get().memory.adopt({.base = reinterpret_cast<std::uintptr_t>(at),
                                .size = size,
                                .kind = Kind::host,
                                .flags = flags | CU_MEMHOSTALLOC_DEVICEMAP,
                                .context = context->handle(),
                                .device = context->device},
                               CUDA_ERROR_OUT_OF_MEMORY);
    *made = at;
}

void free_host(void* p) {
    current_context();
    Driver::get().synchronize();  // it belongs to all devices
    unmap_host(Driver::get().memory.remove(reinterpret_cast<std::uintptr_t>(p),
                                           [](const Allocation& allocation) { return allocation.kind == Kind::host; }));
}

// What may be the host's as well as the device's.
Allocation on_both_sides(const void* p) {
    const auto found = Driver::get().memory.find(reinterpret_cast<std::uintptr_t>(p));
    require(found && (found->host_pinned() || found->kind == Kind::mapped || found->is_managed()));
    return *found;
}

}  // namespace
}  // namespace barcuda::soft::driver

using namespace barcuda::soft::driver;

// ---- device memory --------------------------------------------------------------------------------------------------

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
    return api([&] { allocate(dptr, bytesize, Kind::device, 0); });
}
CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
    return api([&] {
        require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST);
        allocate(dptr, bytesize, Kind::managed, flags);
    });
}
CUresult cuMemAllocPitch_v2(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes) {
    return api([&] {
        require(dptr && pPitch && WidthInBytes != 0 && Height != 0);
        require(ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16);
        if (WidthInBytes > Driver::get().memory.total()) fail(CUDA_ERROR_OUT_OF_MEMORY);
        const std::size_t pitch = (WidthInBytes + pitch_alignment - 1) & ~(pitch_alignment - 1);
        if (Height > Driver::get().memory.total() / pitch) fail(CUDA_ERROR_OUT_OF_MEMORY);
        allocate(dptr, pitch * Height, Kind::device, 0);
        *pPitch = pitch;
    });
}
CUresult cuMemFree_v2(CUdeviceptr dptr) {
    return api([&] {
        const auto context = current_context();
        if (dptr == 0) return;
        const auto target = Driver::get().memory.find(dptr);
        require(target && target->base == dptr && target->freeable());
        context->synchronize();  // CUDA waits for the work that may still use it
        if (target->context != context->handle())
            if (const auto owner = Driver::get().contexts.try_find(target->context)) owner->synchronize();
        note_free(dptr);
        Driver::get().memory.collect();
        if (!free_graph_memory(dptr)) {
            const Allocation gone =
                Driver::get().memory.remove(dptr, [](const Allocation& allocation) { return allocation.freeable(); });
            if (gone.pool && gone.in_heap()) gone.pool->give(Heap::rounded(gone.size));
        }
        context->check();
    });
}
CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    return api([&] {
        const int device = current_context()->device;
        const Memory& memory = Driver::get().memory;
        if (total) *total = memory.total();
        if (free) *free = memory.free(device);
    });
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
    return api([&] {
        const auto found = Driver::get().memory.find(dptr);
        require(found.has_value(), CUDA_ERROR_NOT_FOUND);
        if (pbase) *pbase = found->base;
        if (psize) *psize = found->size;
    });
}

// ---- host memory ----------------------------------------------------------------------------------------------------

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
    return api([&] { allocate_host(pp, bytesize, CU_MEMHOSTALLOC_PORTABLE); });
}
CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
    return api([&] { allocate_host(pp, bytesize, Flags); });
}
CUresult cuMemFreeHost(void* p) {
    return api([&] {
        if (p) free_host(p);
    });
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
    return api([&] {
        constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
        require(p && bytesize != 0 && (Flags & ~known) == 0);
        require(reinterpret_cast<std::uintptr_t>(p) + bytesize > reinterpret_cast<std::uintptr_t>(p));
        const auto context = current_context();
        Driver::get().memory.adopt({.base = reinterpret_cast<std::uintptr_t>(p),
                                    .size = bytesize,
                                    .kind = Kind::registered,
                                    .flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP,
                                    .context = context->handle(),
                                    .device = context->device,
                                    .writable = !(Flags & CU_MEMHOSTREGISTER_READ_ONLY)},
                                   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    });
}
CUresult cuMemHostUnregister(void* p) {
    return api([&] {
        current_context();
        const auto at = reinterpret_cast<std::uintptr_t>(p);
        const auto found = Driver::get().memory.find(at);
        require(p != nullptr);
        require(found && found->base == at && found->kind == Kind::registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        Driver::get().synchronize();  // it belongs to all devices
        Driver::get().memory.remove(at,
                                    [](const Allocation& allocation) { return allocation.kind == Kind::registered; });
    });
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
    return api([&] {
        require(pdptr && p && Flags == 0);
        current_context();
        const Allocation found = on_both_sides(p);
        require(!found.is_managed());
        // Kernels use the host's own addresses. Of a mapping NVIDIA's driver (580) tells the beginning.
        *pdptr = found.host_pinned() ? reinterpret_cast<CUdeviceptr>(p) : found.base;
    });
}
CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
    return api([&] {
        require(pFlags && p);
        const Allocation found = on_both_sides(p);  // NVIDIA's driver (580) does not tell whether it is portable
        *pFlags = found.host_pinned()  ? found.flags & ~(found.kind == Kind::host ? CU_MEMHOSTALLOC_PORTABLE : 0u)
                  : found.is_managed() ? CU_MEMHOSTALLOC_DEVICEMAP
                                       : CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
    });
}

// ---- pointers -------------------------------------------------------------------------------------------------------

namespace {

// Writes one attribute; false if the pointer is not ours and the attribute has a neutral value for that.
template <class T> void put(void* data, T value) { std::memcpy(data, &value, sizeof value); }

// Of a mapping, as documented: all the addresses that were reserved with it.
std::pair<std::uintptr_t, std::size_t> range_of(const Allocation& found) {
    return found.kind == Kind::mapped ? reserved_around(found.base) : std::pair{found.base, found.size};
}

// What was mapped at once: of the device's own memory a unit of two megabytes, or several.
std::pair<std::uintptr_t, std::size_t> mapping_of(const Allocation& found) {
    constexpr std::uintptr_t unit = 2 << 20;
    if (!found.in_heap() || (found.pool && found.pool->own)) return {found.base, found.size};
    const std::uintptr_t begin = found.base / unit * unit;
    return {begin, (found.base + found.size - begin + unit - 1) / unit * unit};
}

CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    const auto found = Driver::get().memory.find(pointer);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    const bool host_reads = !found->on_device() || found->kind == Kind::managed;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT: put(data, found->pool ? nullptr : found->context); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            put(data, static_cast<unsigned>(found->host_pinned() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: put(data, pointer); break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            put(data, host_reads ? reinterpret_cast<void*>(pointer) : nullptr);
            return host_reads ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: put<bool>(data, found->sync_memops); break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID: put<unsigned long long>(data, found->id); break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: put<bool>(data, found->is_managed()); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put<int>(data, found->device); break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: put<bool>(data, found->legacy_ipc()); break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: put(data, range_of(*found).first); break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: put(data, range_of(*found).second); break;
        case CU_POINTER_ATTRIBUTE_MAPPED: put<bool>(data, found->accessible); break;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
            put<unsigned long long>(data, found->physical ? found->physical->properties.requestedHandleTypes
                                          : found->pool && found->pool->own ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                                                            : CU_MEM_HANDLE_TYPE_NONE);
            break;
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: put<bool>(data, false); break;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
            put<unsigned>(data, !found->accessible ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                                : found->writable  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                                   : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
            break;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: put(data, reinterpret_cast<CUmemoryPool>(found->pool.get())); break;
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: put(data, mapping_of(*found).second); break;
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: put(data, mapping_of(*found).first); break;
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: put<unsigned long long>(data, found->id); break;
        // Of the memory, as NVIDIA's driver (580) says it; the device decompresses nothing.
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: put<bool>(data, found->legacy_ipc()); break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// The value of cuPointerGetAttributes for memory that CUDA does not know, or for a missing attribute.
void put_nothing(void* data, CUpointer_attribute attribute) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: put<unsigned>(data, 0); break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: put<int>(data, -2); break;  // cudaInvalidDeviceId, as on hardware
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: put<bool>(data, false); break;
        case CU_POINTER_ATTRIBUTE_P2P_TOKENS: put(data, CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{}); break;
        default: put<unsigned long long>(data, 0); break;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return api([&] {
        require(data);
        current_context();
        return pointer_attribute(data, attribute, ptr);
    });
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
    return api([&] {
        require(numAttributes == 0 || (attributes && data));
        current_context();
        for (unsigned i = 0; i < numAttributes; ++i) {
            require(data[i]);
            if (pointer_attribute(data[i], attributes[i], ptr) == CUDA_SUCCESS) continue;
            if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {  // of what is reserved, or left as it was
                const auto [begin, size] = reserved_around(ptr);
                if (ptr - begin < size) put(data[i], size);
                continue;
            }
            // A host pointer is reported even if the device does not know it: the runtime recognizes it by that.
            put_nothing(data[i], attributes[i]);
        }
    });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    return api([&] {
        require(value != nullptr);
        const auto found = Driver::get().memory.find(ptr);
        if (found && found->kind == Kind::mapped) fail(CUDA_ERROR_NOT_SUPPORTED);
        require(attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
        unsigned wanted;
        std::memcpy(&wanted, value, sizeof wanted);
        require(
            Driver::get().memory.change(ptr, [&](Allocation& allocation) { allocation.sync_memops = wanted != 0; }));
    });
}

// ---- managed memory's hints -----------------------------------------------------------------------------------------

namespace {

// There is one copy of managed memory, near both to host and device: hints are checked and have no effect.
void require_managed(CUdeviceptr address, std::size_t size) {
    const auto found = Driver::get().memory.find(address);
    require(found && size != 0 && size <= found->base + found->size - address);
    require(found->is_managed() || found->host_pinned());
}

}  // namespace

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
    return api([&] {
        require(flags == 0);
        if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) require_device(location.id);
        stream_of(hStream);
        require_managed(devPtr, count);
    });
}
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return cuMemPrefetchAsync_v2(devPtr, count,
                                 {dstDevice == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                                  dstDevice == CU_DEVICE_CPU ? 0 : dstDevice},
                                 0, hStream);
}
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation) {
    return api([&] {
        current_context();
        require(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
        require_managed(devPtr, count);
    });
}
CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return cuMemAdvise_v2(devPtr, count, advice, {CU_MEM_LOCATION_TYPE_DEVICE, device});
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                 size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                 CUstream hStream) {
    return api([&] {
        require(dptrs && sizes && prefetchLocs && prefetchLocIdxs && numPrefetchLocs != 0 && flags == 0);
        stream_of(hStream);
        for (std::size_t i = 0; i < count; ++i) require_managed(dptrs[i], sizes[i]);
    });
}
CUresult cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags,
                                CUstream hStream) {
    return api([&] {  // discarded memory may contain anything, also its old contents
        require(dptrs && sizes && flags == 0);
        stream_of(hStream);
        for (std::size_t i = 0; i < count; ++i) require_managed(dptrs[i], sizes[i]);
    });
}
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                           size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
    return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}
