// SPDX-License-Identifier: Apache-2.0
// memory.cc: the manual's "Memory Management": allocating and freeing memory, and what is known about a pointer.
// Copies are in copy.cc and box.cc, arrays in array.cc, pools in pool.cc.
#include <iterator>

#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

static_assert(cudaHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE && cudaHostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
              cudaHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
static_assert(cudaHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE &&
              cudaHostRegisterMapped == CU_MEMHOSTREGISTER_DEVICEMAP &&
              cudaHostRegisterIoMemory == CU_MEMHOSTREGISTER_IOMEMORY &&
              cudaHostRegisterReadOnly == CU_MEMHOSTREGISTER_READ_ONLY);
static_assert(cudaMemAttachGlobal == static_cast<int>(CU_MEM_ATTACH_GLOBAL) &&
              cudaMemAttachHost == static_cast<int>(CU_MEM_ATTACH_HOST));

namespace {

// The driver refuses an allocation of nothing; the runtime answers it with a null pointer, which every free accepts.
template <class Allocate> cudaError_t allocate(void** memory, std::size_t size, Allocate allocate) {
    if (!memory) return record(cudaErrorInvalidValue);
    if (size != 0) return allocate();
    *memory = nullptr;
    return record(ready());
}

}  // namespace

// ---- device memory -------------------------------------------------------------------------------------------------
API cudaMalloc(void** memory, size_t size) {
    return allocate(memory, size, [&] {
        CUdeviceptr address = 0;
        const cudaError_t r = call(cuMemAlloc, &address, size);
        if (r == cudaSuccess) *memory = reinterpret_cast<void*>(address);
        return r;
    });
}

API cudaFree(void* memory) { return call(cuMemFree, memory); }

API cudaMallocPitch(void** memory, size_t* pitch, size_t width, size_t height) {
    if (!memory || !pitch) return record(cudaErrorInvalidValue);
    *pitch = 0;
    size_t size;
    if (__builtin_mul_overflow(width, height, &size)) return record(cudaErrorMemoryAllocation);
    // 16: the widest element; rows then suit coalesced access of every type.
    return allocate(memory, size, [&] { return call(cuMemAllocPitch, memory, pitch, width, height, 16u); });
}

API cudaMalloc3D(cudaPitchedPtr* memory, cudaExtent extent) {
    if (!memory) return record(cudaErrorInvalidValue);
    *memory = {nullptr, 0, extent.width, extent.height};
    size_t rows;
    if (extent.width == 0) rows = 0;
    else if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return record(cudaErrorMemoryAllocation);
    return cudaMallocPitch(&memory->ptr, &memory->pitch, extent.width, rows);
}

API cudaMallocManaged(void** memory, size_t size, unsigned flags) {
    return allocate(memory, size, [&] { return call(cuMemAllocManaged, memory, size, flags); });
}

API cudaMemGetInfo(size_t* free, size_t* total) { return call(cuMemGetInfo, free, total); }

// ---- pinned host memory --------------------------------------------------------------------------------------------
API cudaHostAlloc(void** memory, size_t size, unsigned flags) {
    return allocate(memory, size, [&] { return call(cuMemHostAlloc, memory, size, flags); });
}

// With unified addressing every pinned allocation is portable and mapped, whatever was asked for.
API cudaMallocHost(void** memory, size_t size) { return cudaHostAlloc(memory, size, cudaHostAllocDefault); }

API cudaFreeHost(void* memory) { return memory ? call(cuMemFreeHost, memory) : record(ready()); }

API cudaHostRegister(void* memory, size_t size, unsigned flags) { return call(cuMemHostRegister, memory, size, flags); }
API cudaHostUnregister(void* memory) { return call(cuMemHostUnregister, memory); }
API cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
    return call(cuMemHostGetDevicePointer, device, host, flags);
}
API cudaHostGetFlags(unsigned* flags, void* host) { return call(cuMemHostGetFlags, flags, host); }

// ---- managed memory ------------------------------------------------------------------------------------------------
API cudaMemPrefetchAsync(const void* memory, size_t count, cudaMemLocation location, unsigned flags,
                         cudaStream_t stream) {
    return call(cuMemPrefetchAsync, memory, count, location, flags, stream);
}

API cudaMemAdvise(const void* memory, size_t count, cudaMemoryAdvise advice, cudaMemLocation location) {
    return call(cuMemAdvise, memory, count, advice, location);
}

API cudaMemRangeGetAttribute(void* data, size_t size, cudaMemRangeAttribute attribute, const void* memory,
                             size_t count) {
    return call(cuMemRangeGetAttribute, data, size, attribute, memory, count);
}

API cudaMemRangeGetAttributes(void** data, size_t* sizes, cudaMemRangeAttribute* attributes, size_t attribute_count,
                              const void* memory, size_t count) {
    return call(cuMemRangeGetAttributes, data, sizes, attributes, attribute_count, memory, count);
}

API cudaMemPrefetchBatchAsync(void** memory, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* indices,
                              size_t location_count, unsigned long long flags, cudaStream_t stream) {
    return call(cuMemPrefetchBatchAsync, memory, sizes, count, locations, indices, location_count, flags, stream);
}
API cudaMemDiscardBatchAsync(void** memory, size_t* sizes, size_t count, unsigned long long flags,
                             cudaStream_t stream) {
    return call(cuMemDiscardBatchAsync, memory, sizes, count, flags, stream);
}
API cudaMemDiscardAndPrefetchBatchAsync(void** memory, size_t* sizes, size_t count, cudaMemLocation* locations,
                                        size_t* indices, size_t location_count, unsigned long long flags,
                                        cudaStream_t stream) {
    return call(cuMemDiscardAndPrefetchBatchAsync, memory, sizes, count, locations, indices, location_count, flags,
                stream);
}

// ---- what a pointer is ---------------------------------------------------------------------------------------------
// Memory that CUDA has never heard of is no error: it is "unregistered", and only the host can use it.
API cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    if (!attributes) return record(cudaErrorInvalidValue);
    unsigned kind = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    void* on_device = nullptr;
    void* on_host = nullptr;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&kind, &managed, &device, &on_device, &on_host};
    if (cudaError_t error = call(cuPointerGetAttributes, std::size(what), what, values, pointer)) return error;

    *attributes = {};
    if (kind == 0) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = const_cast<void*>(pointer);
        return cudaSuccess;
    }
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : kind == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = on_device;
    attributes->hostPointer = on_host;
    return cudaSuccess;
}
