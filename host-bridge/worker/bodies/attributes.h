// SPDX-License-Identifier: Apache-2.0
// attributes.h: which attributes of streams and nodes the client may read and set: plain numbers, and a window of its
// own memory.
#pragma once
#include "host-bridge/worker/session/session.h"

namespace barcuda {

// Attributes of plain numbers.
inline bool plain(CUlaunchAttributeID id) {
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return true;
        default: return false;
    }
}
// An access policy window contains an address, which must be in the client's memory.
inline CUresult admitted(CUlaunchAttributeID id, const CUlaunchAttributeValue* value) {
    if (plain(id)) return CUDA_SUCCESS;
    if (id != CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) return CUDA_ERROR_NOT_SUPPORTED;
    if (!value || value->accessPolicyWindow.num_bytes == 0) return CUDA_SUCCESS;
    const auto address = reinterpret_cast<CUdeviceptr>(value->accessPolicyWindow.base_ptr);
    return session().reachable(address, value->accessPolicyWindow.num_bytes).ok() ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace barcuda
