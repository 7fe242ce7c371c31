// SPDX-License-Identifier: Apache-2.0
// managed.cc: managed memory is pinned memory under another name: host and device both reach it where it lies, and it
// stays there. Advice about it is heard, not kept; of a batch of ranges it is checked that they are managed.
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

namespace {

CUresult check_batch(const CUdeviceptr* starts, const size_t* bytes, size_t count, unsigned long long flags) {
    if (!starts || !bytes || count == 0 || flags) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    for (size_t i = 0; i < count; ++i) {
        const auto* at = reinterpret_cast<const std::byte*>(starts[i]);
        const heap::Found found = heap::find(at);
        if (found.kind != heap::Kind::pinned || !(found.flags & managed::mark)) return CUDA_ERROR_INVALID_VALUE;
        if (bytes[i] == 0 || bytes[i] > found.bytes - static_cast<size_t>(at - found.base))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// Place k is that of the ranges from indices[k] on.
CUresult check_places(const CUmemLocation* places, const size_t* indices, size_t count, size_t ranges) {
    if (!places || !indices || count == 0 || count > ranges || indices[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 1; k < count; ++k)
        if (indices[k] <= indices[k - 1] || indices[k] >= ranges) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

}  // namespace

CU cuMemPrefetchBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, CUmemLocation* places, size_t* indices,
                           size_t place_count, unsigned long long flags, CUstream) {
    const CUresult r = check_batch(starts, bytes, count, flags);
    return r == CUDA_SUCCESS ? check_places(places, indices, place_count, count) : r;
}
CU cuMemDiscardBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, unsigned long long flags, CUstream) {
    return check_batch(starts, bytes, count, flags);
}
CU cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* starts, size_t* bytes, size_t count, CUmemLocation* places,
                                     size_t* indices, size_t place_count, unsigned long long flags, CUstream stream) {
    return cuMemPrefetchBatchAsync(starts, bytes, count, places, indices, place_count, flags, stream);
}
