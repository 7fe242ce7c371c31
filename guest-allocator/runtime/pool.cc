// SPDX-License-Identifier: Apache-2.0
// pool.cc: the manual's "Stream Ordered Memory Allocator": allocation as an operation of a stream, from a device's
// pool.
#include "guest-allocator/runtime/runtime.h"

using namespace barcuda::runtime;

API cudaMallocAsync(void** memory, size_t size, cudaStream_t stream) {
    if (!memory) return record(cudaErrorInvalidValue);
    if (size == 0) {  // as cudaMalloc
        *memory = nullptr;
        return record(ready());
    }
    return call(cuMemAllocAsync, memory, size, stream);
}
API cudaFreeAsync(void* memory, cudaStream_t stream) {
    return memory ? call(cuMemFreeAsync, memory, stream) : record(ready());
}
API cudaMallocFromPoolAsync(void** memory, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    if (!memory) return record(cudaErrorInvalidValue);
    if (size == 0) {
        *memory = nullptr;
        return record(ready());
    }
    return call(cuMemAllocFromPoolAsync, memory, size, pool, stream);
}

// ---- pools ---------------------------------------------------------------------------------------------------------
API cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
    return call(cuMemPoolCreate, pool, properties);
}
API cudaMemPoolDestroy(cudaMemPool_t pool) { return call(cuMemPoolDestroy, pool); }
API cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) { return call(cuMemPoolTrimTo, pool, keep); }
API cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    return call(cuMemPoolSetAttribute, pool, attribute, value);
}
API cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    return call(cuMemPoolGetAttribute, pool, attribute, value);
}
API cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count) {
    return call(cuMemPoolSetAccess, pool, list, count);
}
API cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation* location) {
    return call(cuMemPoolGetAccess, flags, pool, location);
}

// ---- which pool a device uses --------------------------------------------------------------------------------------
API cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    return ask(cuDeviceGetDefaultMemPool, pool, device);
}
API cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return ask(cuDeviceGetMemPool, pool, device); }
API cudaDeviceSetMemPool(int device, cudaMemPool_t pool) { return ask(cuDeviceSetMemPool, device, pool); }
API cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
    return ask(cuMemGetDefaultMemPool, pool, location, type);
}
API cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* location, cudaMemAllocationType type) {
    return ask(cuMemGetMemPool, pool, location, type);
}
API cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type, cudaMemPool_t pool) {
    return ask(cuMemSetMemPool, location, type, pool);
}

// ---- pools of other processes --------------------------------------------------------------------------------------
API cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type,
                                       unsigned flags) {
    return call(cuMemPoolExportToShareableHandle, handle, pool, type, flags);
}
API cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle, cudaMemAllocationHandleType type,
                                         unsigned flags) {
    return call(cuMemPoolImportFromShareableHandle, pool, handle, type, flags);
}
API cudaMemPoolExportPointer(cudaMemPoolPtrExportData* data, void* memory) {
    return call(cuMemPoolExportPointer, data, memory);
}
API cudaMemPoolImportPointer(void** memory, cudaMemPool_t pool, cudaMemPoolPtrExportData* data) {
    return call(cuMemPoolImportPointer, memory, pool, data);
}
