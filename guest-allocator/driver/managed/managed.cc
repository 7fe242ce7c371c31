// SPDX-License-Identifier: Apache-2.0
// managed.cc: managed memory is pinned memory under another name: host and device both reach it where it lies, and it
// stays there. Advice about it is heard, not kept.
#include "guest-allocator/driver/managed/managed.h"

#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/memory.h"
#include "guest-allocator/heap/heap.h"

using namespace barcuda::guest;

CU cuMemAllocManaged(CUdeviceptr* p, size_t bytes, unsigned flags) {
    if (!p || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_pinned(reinterpret_cast<void**>(p), bytes, flags | managed::mark);
}

CU cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) { return CUDA_SUCCESS; }
CU cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { return CUDA_SUCCESS; }
CU cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned) {
    return CUDA_SUCCESS;
}  // every stream sees it at any time

CU cuMemRangeGetAttribute(void* data, size_t room, CUmem_range_attribute attribute, CUdeviceptr p, size_t bytes) {
    const void* memory = reinterpret_cast<const void*>(p);
    if (!data || room == 0 || room % 4 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (is_device(p) || heap::kind_of(memory, bytes) != heap::Kind::pinned) return CUDA_ERROR_INVALID_VALUE;
    int value = 0;
    switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: value = CU_DEVICE_INVALID; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (size_t i = 0; i < room / 4; ++i) static_cast<int*>(data)[i] = value;
    return CUDA_SUCCESS;
}
CU cuMemRangeGetAttributes(void** data, size_t* rooms, CUmem_range_attribute* attributes, size_t count, CUdeviceptr p,
                           size_t bytes) {
    if (!data || !rooms || !attributes || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i)
        if (CUresult r = cuMemRangeGetAttribute(data[i], rooms[i], attributes[i], p, bytes); r != CUDA_SUCCESS)
            return r;
    return CUDA_SUCCESS;
}
