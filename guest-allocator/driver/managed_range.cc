// SPDX-License-Identifier: Apache-2.0
// managed_range.cc: attributes of managed memory.
#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/heap/heap.h"

using namespace barcuda;

// Managed memory lies where host and device both reach it, and stays there: advice about it is heard, not kept.
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
