// SPDX-License-Identifier: Apache-2.0
// memory.cc: device memory. Calls that natively wait for the GPU are deferred until it is idle (deferred.h). (The
// guest's half: guest-allocator/driver/memory.cc.)
#include <bit>

#include "host-bridge/worker/bodies/body.h"

namespace barcuda::ext {
namespace {
// The driver also knows host memory that the worker has registered for itself. A client is told nothing about it. (A
// range that is reserved and not mapped has no type, and a managed variable may be host memory at the moment.)
bool is_the_workers(CUdeviceptr address) {
    if (session().holds(reinterpret_cast<const void*>(address), 1)) return false;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    unsigned type = 0;
    void* value = &type;
    return driver().cuPointerGetAttributes(1, &name, &value, address) == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST &&
           !session().addresses().is_variable(address);
}
// Whether the client has freed the memory there, though the driver still has it.
bool is_freed(CUdeviceptr address) {
    if (!session().deferred().pending() && !session().addresses().any_freed_in_order()) return false;
    CUdeviceptr begin = 0;
    return session().addresses().went_with_its_code(address, 1) ||
           (driver().cuMemGetAddressRange_v2(&begin, nullptr, address) == CUDA_SUCCESS &&
            (session().addresses().is_retired(begin) || session().addresses().is_freed_in_order(begin)));
}
}  // namespace

CUresult pointer_attribute(std::uint64_t* value, CUpointer_attribute attribute, CUdeviceptr address) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    *value = 0;
    if (is_freed(address) || is_the_workers(address)) return CUDA_ERROR_INVALID_VALUE;
    void* values[] = {value};
    const CUresult r = driver().cuPointerGetAttributes(1, &attribute, values, address);
    // The driver's pointers stay here.
    if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT) *value = *value != 0;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
        *value = session().handles().id_of(std::bit_cast<CUmemoryPool>(*value));
    return r;
}
CUresult set_pointer_attribute(CUpointer_attribute attribute, unsigned value, CUdeviceptr address) {
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) return CUDA_ERROR_INVALID_VALUE;
    if (!driver().cuPointerSetAttribute) return CUDA_ERROR_NOT_SUPPORTED;
    return driver().cuPointerSetAttribute(&value, attribute, address);
}

CUresult release(std::uint64_t offset, std::uint64_t bytes) { return session().deferred().release(offset, bytes); }

}  // namespace barcuda::ext

namespace barcuda::body {
BODY(cuMemGetAddressRange_v2)(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr address) {
    if (ext::is_the_workers(address)) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuMemGetAddressRange_v2(begin, bytes, address);
}

namespace {
// Of the host's memory a client has its region: what a driver makes there no limit counts, and the worker's addresses
// would be the program's. (Guests have pools of the host of their own: guest-allocator/driver/host_pool.h.)
CUresult on_device(const CUmemLocation& place) {
    if (crossing::on_host(place)) return CUDA_ERROR_NOT_SUPPORTED;
    return place.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
}  // namespace
BODY(cuMemCreate)
(CUmemGenericAllocationHandle* memory, std::size_t bytes, const CUmemAllocationProp* what, unsigned long long flags) {
    const CUresult r = on_device(what->location);
    if (r != CUDA_SUCCESS) return r;
    return driver().cuMemCreate ? driver().cuMemCreate(memory, bytes, what, flags) : CUDA_ERROR_NOT_SUPPORTED;
}
BODY(cuMemGetDefaultMemPool)(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    const CUresult r = on_device(*place);
    if (r != CUDA_SUCCESS) return r;
    const auto get = driver().cuMemGetDefaultMemPool;
    return get ? get(pool, place, type) : CUDA_ERROR_NOT_SUPPORTED;
}
BODY(cuMemGetMemPool)(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    const CUresult r = on_device(*place);
    if (r != CUDA_SUCCESS) return r;
    return driver().cuMemGetMemPool ? driver().cuMemGetMemPool(pool, place, type) : CUDA_ERROR_NOT_SUPPORTED;
}
BODY(cuMemSetMemPool)(CUmemLocation* place, CUmemAllocationType type, CUmemoryPool pool) {
    const CUresult r = on_device(*place);
    if (r != CUDA_SUCCESS) return r;
    return driver().cuMemSetMemPool ? driver().cuMemSetMemPool(place, type, pool) : CUDA_ERROR_NOT_SUPPORTED;
}

BODY(cuMemAllocPitch_v2)(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height, unsigned of) {
    const CUresult r = driver().cuMemAllocPitch_v2(address, pitch, width, height, of);
    if (r == CUDA_SUCCESS) session().addresses().given_again(*address);
    return r;
}
BODY(cuMemAlloc_v2)(CUdeviceptr* address, std::size_t bytes) { return session().deferred().allocate(*address, bytes); }
namespace {
CUresult given(CUresult r, const CUdeviceptr* address, std::size_t bytes, CUstream stream) {
    if (r != CUDA_SUCCESS) return r;
    session().addresses().given_again(*address);
    session().addresses().promise_in_capture(*address, bytes, stream);
    return r;
}
}  // namespace
BODY(cuMemAllocAsync)(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
    return given(driver().cuMemAllocAsync(address, bytes, stream), address, bytes, stream);
}
BODY(cuMemAllocFromPoolAsync)(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
    return given(driver().cuMemAllocFromPoolAsync(address, bytes, pool, stream), address, bytes, stream);
}
BODY(cuMemFree_v2)(CUdeviceptr address) { return session().deferred().free(address); }
BODY(cuMemFreeAsync)(CUdeviceptr address, CUstream stream) {
    session().deferred().note_freed(stream);
    Addresses& addresses = session().addresses();  // (a graph's memory is there again at its next launch)
    const bool notes = address && !addresses.is_a_graphs(address) && !session().streams().capturing(stream);
    const std::uint64_t buffer = notes ? addresses.buffer_at(address) : 0;
    const CUresult r = driver().cuMemFreeAsync(address, stream);
    if (r == CUDA_SUCCESS && notes) addresses.freed_in_order(address, buffer);
    return r;
}

BODY(cuMemPoolDestroy)(CUmemoryPool pool) {
    int devices = 0;
    driver().cuDeviceGetCount(&devices);
    for (CUdevice device = 0; device < devices; ++device) {  // the pool may belong to any of them
        CUmemoryPool always = nullptr, used = nullptr;
        if (driver().cuDeviceGetDefaultMemPool(&always, device) != CUDA_SUCCESS ||
            driver().cuDeviceGetMemPool(&used, device) != CUDA_SUCCESS)
            continue;  // the device has no pools
        if (pool == always) return CUDA_ERROR_INVALID_VALUE;
        // as the driver does when it destroys the pool
        if (pool == used) driver().cuDeviceSetMemPool(device, always);
    }
    return session().deferred().destroy(pool);
}

}  // namespace barcuda::body
