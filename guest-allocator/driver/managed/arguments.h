// SPDX-License-Identifier: Apache-2.0
// arguments.h: what programs pass to calls about managed memory: a range of it, a place.
#pragma once
#include "guest-allocator/client/client.h"
#include "guest-allocator/driver/managed/state/table.h"
#include "shm-device/kinds/structs.h"

namespace barcuda::guest::managed {

// Of [p, p + bytes): that it is managed, all of it. `use(allocation)` under the lock.
template <class Use> CUresult with_range(CUdeviceptr p, std::size_t bytes, Use use) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    std::lock_guard lock(table().mutex);
    Allocation* const a = table().allocation(p);
    return a && bytes <= a->end() - p ? use(*a) : CUDA_ERROR_INVALID_VALUE;
}

inline bool is_place(const CUmemLocation& place) {
    if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return Client::current() && Client::current()->device(place.id);
    return crossing::on_host(place);
}

}  // namespace barcuda::guest::managed
