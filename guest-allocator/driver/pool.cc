// pool.cc: attributes of memory pools, of graphs' memory and of managed memory, whose values are words of four or eight
// bytes.
#include <string.h>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/copy.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/heap/heap.h"

namespace {

std::size_t bytes_of(CUmemPool_attribute attribute) {
    switch (attribute) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return 4;
        default: return 8;
    }
}

}  // namespace

using namespace barcuda;

CU cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    std::uint64_t word = 0;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = command<Op::pool_attribute>(pool, attribute, &word);
    if (r == CUDA_SUCCESS) memcpy(value, &word, bytes_of(attribute));
    return r;
}
CU cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    std::uint64_t word = 0;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    memcpy(&word, value, bytes_of(attribute));
    return command<Op::set_pool_attribute>(pool, attribute, word);
}

CU cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
    return command<Op::graph_memory_attribute>(device, attribute, static_cast<std::uint64_t*>(value));
}
CU cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    return command<Op::set_graph_memory_attribute>(device, attribute, *static_cast<std::uint64_t*>(value));
}

CU cuMemPoolDestroy(CUmemoryPool pool) { return command<Op::destroy_pool>(pool); }

CU cuStreamGetAttribute(CUstream stream, CUstreamAttrID id, CUstreamAttrValue* value) {
    return command<Op::stream_attribute>(stream, id, value);
}
CU cuStreamSetAttribute(CUstream stream, CUstreamAttrID id, const CUstreamAttrValue* value) {
    return command<Op::set_stream_attribute>(stream, id, value);
}

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
