// SPDX-License-Identifier: Apache-2.0
// physical.cc: memory without an address (cuMemCreate), and how many handles of it the program holds.
#include <map>
#include <mutex>

#include "guest-allocator/client/command.h"
#include "guest-allocator/driver/context.h"
#include "guest-allocator/driver/descriptor.h"
#include "guest-allocator/driver/export.h"
#include "guest-allocator/driver/managed.h"
#include "guest-allocator/driver/places.h"
#include "shm-device/queue/wire.h"

namespace barcuda::guest {
namespace {

// Handles that the program holds more than once: the host has each of them once.
Mutex held_mutex;
std::map<CUmemGenericAllocationHandle, unsigned>& held() {
    static auto& all = *new std::map<CUmemGenericAllocationHandle, unsigned>;
    return all;
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
    // On the host the program would reach it at the address at which the worker has it.
    if (crossing::on_host(properties->location)) return CUDA_ERROR_NOT_SUPPORTED;
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
