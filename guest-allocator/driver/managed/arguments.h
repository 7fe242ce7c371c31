// SPDX-License-Identifier: Apache-2.0
// arguments.h: what programs pass to calls about managed memory: a range of it, a place.
#pragma once
#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/managed/state/state.h"
#include "shm-device/kinds/structs.h"

namespace barcuda::guest::managed {

// Calls use(allocation) under the lock if all of [p, p + bytes) is managed, and in one allocation.
template <class Use> CUresult with_allocation(CUdeviceptr p, std::size_t bytes, Use use) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(state().mutex);
    Allocation* const a = state().allocations.find(p);
    return a && bytes <= a->end() - p ? use(*a) : CUDA_ERROR_INVALID_VALUE;
}

inline bool is_place(const CUmemLocation& place) {
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return Client::current() && Client::current()->device(place.id);
    return crossing::on_host(place);
}

}  // namespace barcuda::guest::managed
