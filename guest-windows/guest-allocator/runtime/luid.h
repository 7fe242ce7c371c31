// SPDX-License-Identifier: Apache-2.0
// luid.h: the properties have the identifier that the driver tells (guest-windows/guest-allocator/driver/direct3d.cc).
#pragma once
#include <cuda.h>
#include <driver_types.h>

namespace barcuda::runtime {

inline void set_luid(cudaDeviceProp& properties, CUdevice device) noexcept {
    cuDeviceGetLuid(properties.luid, &properties.luidDeviceNodeMask, device);
}

}  // namespace barcuda::runtime
