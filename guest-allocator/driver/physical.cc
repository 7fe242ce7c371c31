// SPDX-License-Identifier: Apache-2.0
// physical.cc: memory without an address (cuMemCreate), and how many handles of it the program holds; and what memory
// may be asked for by where it is to be, and how it is to be shared.
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/descriptor.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "shm-device/queue/wire.h"

namespace barcuda::guest {
namespace {

// Handles that the program holds more than once: the host has each of them once.
Mutex held_mutex;
std::map<CUmemGenericAllocationHandle, unsigned>& held() {
    static auto& all = *new std::map<CUmemGenericAllocationHandle, unsigned>;
    return all;
}

bool is_node(int number) {
    return number >= 0 && access(("/sys/devices/system/node/node" + std::to_string(number)).c_str(), F_OK) == 0;
}

// What NVIDIA's driver (580) says of memory that it would not make; and, of memory that it would and a guest cannot
// have, that it is not supported: on the host, where the program would reach it at the address at which the worker has
// it, and shared by fabric handles.
constexpr unsigned other_systems = CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT;
CUresult may_be_made(const CUmemLocation& location, unsigned handles, CUresult bad_device, CUresult fabric) {
    int devices = 0;
    switch (location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            if (CUresult r = cuDeviceGetCount(&devices); r != CUDA_SUCCESS) return r;
            if (location.id < 0 || location.id >= devices) return bad_device;
            break;
        case CU_MEM_LOCATION_TYPE_HOST:
            if (handles) return CUDA_ERROR_INVALID_VALUE;
            break;
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
            if (!is_node(location.id)) return CUDA_ERROR_INVALID_VALUE;
            break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (handles & other_systems) return CUDA_ERROR_INVALID_VALUE;
    if (handles & CU_MEM_HANDLE_TYPE_FABRIC) return fabric;
    return crossing::on_host(location) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

}  // namespace
}  // namespace barcuda::guest

using namespace barcuda::guest;

CU cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes, const CUmemAllocationProp* properties,
               unsigned long long flags) {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = may_be_made(properties->location, properties->requestedHandleTypes, CUDA_ERROR_INVALID_DEVICE,
                                 CUDA_ERROR_NOT_PERMITTED);
        r != CUDA_SUCCESS)
        return r;
    descriptors::collect();
    return command<Op::cuMemCreate>(memory, bytes, properties, flags);
}

// It is the same for all memory, also for such as cannot be made.
CU cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                 CUmemAllocationGranularity_flags which) {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    CUmemAllocationProp served = *properties;
    served.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    return command<Op::cuMemGetAllocationGranularity>(bytes, &served, which);
}

CU cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
    if (!properties) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = may_be_made(properties->location, properties->handleTypes, CUDA_ERROR_INVALID_VALUE,
                                 CUDA_ERROR_NOT_SUPPORTED);
        properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED && r != CUDA_SUCCESS)
        return r;
    return command<Op::cuMemPoolCreate>(pool, properties);
}

// The host has pools, too; but what comes from the worker's is at addresses of the worker's.
static bool is_hosts(const CUmemLocation* place) { return place && crossing::on_host(*place); }
CU cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    return is_hosts(place) ? CUDA_ERROR_NOT_SUPPORTED : command<Op::cuMemGetDefaultMemPool>(pool, place, type);
}
CU cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* place, CUmemAllocationType type) {
    return is_hosts(place) ? CUDA_ERROR_NOT_SUPPORTED : command<Op::cuMemGetMemPool>(pool, place, type);
}
CU cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type, CUmemoryPool pool) {
    return is_hosts(place) ? CUDA_ERROR_NOT_SUPPORTED : command<Op::cuMemSetMemPool>(place, type, pool);
}

CU cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* memory, void* address) {
    if (managed::exists() && managed::extent_of(reinterpret_cast<std::uint64_t>(address)).is_managed)
        return CUDA_ERROR_INVALID_VALUE;  // what the driver has mapped for it is not the program's
    std::lock_guard lock(held_mutex);
    const CUresult r = command<Op::retain_memory>(memory, reinterpret_cast<CUdeviceptr>(address));
    if (r != CUDA_SUCCESS) return r;
    // What the guest has named (cuMemCreate) it holds already.
    ++held().try_emplace(*memory, *memory < wire::given ? 1 : 0).first->second;
    return r;
}

CU cuMemRelease(CUmemGenericAllocationHandle memory) {
    descriptors::collect();
    std::lock_guard lock(held_mutex);
    if (const auto it = held().find(memory); it != held().end()) {
        if (--it->second) return CUDA_SUCCESS;
        held().erase(it);
    }
    return command<Op::cuMemRelease>(memory);
}

CU cuMemGetInfo_v2(size_t* free, size_t* total) {
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    descriptors::collect();
    std::size_t unasked[2];  // NVIDIA's driver (580) takes null
    return command<Op::cuMemGetInfo_v2>(free ? free : &unasked[0], total ? total : &unasked[1]);
}
