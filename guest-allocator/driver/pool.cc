// SPDX-License-Identifier: Apache-2.0
// pool.cc: the manual's "Stream Ordered Memory Allocator": pools. A device's pools are the worker's driver's; those of
// the host are the guest's own (host_pool.h). Allocations from them: memory.cc.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/host_pool.h"
#include "guest-allocator/driver/places.h"

namespace barcuda::guest {
namespace {

bool is_hosts(const CUmemLocation* place) { return place && crossing::on_host(*place); }

// Of the host's pools: which memory they are asked for.
CUresult may_be_named(const CUmemLocation& place, CUmemAllocationType type) {
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
    return may_be_made(place, CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    const bool hosts = is_hosts(&properties->location), pinned = properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED;
    if (pinned) {
        const CUresult r = may_be_made(properties->location, properties->handleTypes, CUDA_ERROR_INVALID_VALUE,
                                       CUDA_ERROR_NOT_SUPPORTED);
        if (r != CUDA_SUCCESS) return r;
    }
    if (!hosts || !pinned) return command<Op::cuMemPoolCreate>(pool, properties);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes) return CUDA_ERROR_NOT_SUPPORTED;  // no other process may open memory of the region
    *pool = host_pool::create(*properties);
    return CUDA_SUCCESS;
}
CU cuMemPoolDestroy(CUmemoryPool pool) {
    return host_pool::is_one(pool) ? host_pool::destroy(pool) : command<Op::cuMemPoolDestroy>(pool);
}
CU cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    return host_pool::is_one(pool) ? host_pool::trim_to(pool) : command<Op::cuMemPoolTrimTo>(pool, keep);
}
CU cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    return host_pool::is_one(pool) ? host_pool::get_attribute(pool, attribute, value)
                                   : command<Op::cuMemPoolGetAttribute>(pool, attribute, value);
}
CU cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    return host_pool::is_one(pool) ? host_pool::set_attribute(pool, attribute, value)
                                   : command<Op::cuMemPoolSetAttribute>(pool, attribute, value);
}
CU cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* place) {
    return host_pool::is_one(pool) ? host_pool::get_access(flags, pool, place)
                                   : command<Op::cuMemPoolGetAccess>(flags, pool, place);
}
CU cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* list, size_t count) {
    if (pool && list && count == 0) return CUDA_SUCCESS;
    return host_pool::is_one(pool) ? host_pool::set_access(pool, list, count)
                                   : command<Op::cuMemPoolSetAccess>(pool, list, count);
}

// ---- which pool is used where the program names none
CU cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    return host_pool::is_one(pool) ? CUDA_ERROR_INVALID_VALUE : command<Op::cuDeviceSetMemPool>(device, pool);
}
CU cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    if (!is_hosts(place)) return command<Op::cuMemGetDefaultMemPool>(pool, place, type);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = may_be_named(*place, type); r != CUDA_SUCCESS) return r;
    *pool = host_pool::standard(*place);
    return CUDA_SUCCESS;
}
CU cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    if (!is_hosts(place)) return command<Op::cuMemGetMemPool>(pool, place, type);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = may_be_named(*place, type); r != CUDA_SUCCESS) return r;
    *pool = host_pool::current(*place);
    return CUDA_SUCCESS;
}
CU cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type, CUmemoryPool pool) {
    if (!is_hosts(place)) return command<Op::cuMemSetMemPool>(place, type, pool);
    const CUresult r = may_be_named(*place, type);
    return r == CUDA_SUCCESS ? host_pool::set_current(*place, pool) : r;
}
