// SPDX-License-Identifier: Apache-2.0
#include "guest-allocator/driver/places.h"

#include <unistd.h>

#include <string>

namespace barcuda::guest {
namespace {

bool is_node(int number) {
    return number >= 0 && access(("/sys/devices/system/node/node" + std::to_string(number)).c_str(), F_OK) == 0;
}

}  // namespace

CUresult may_be_made(const CUmemLocation& location, unsigned handles, CUresult bad_device, CUresult fabric) noexcept {
    constexpr unsigned other_systems = CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT;
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
    return handles & CU_MEM_HANDLE_TYPE_FABRIC ? fabric : CUDA_SUCCESS;
}

}  // namespace barcuda::guest
