// SPDX-License-Identifier: Apache-2.0
// launch.h: what the other launching files (legacy.cc, occupancy.cc) share with launch.cc.
#pragma once
#include "guest-allocator/runtime/registry.h"

namespace barcuda::runtime {

cudaError_t launch(CUfunction function, const dim3& grid, const dim3& block, void** arguments, std::size_t shared,
                   cudaStream_t stream);  // records
CUlaunchConfig driver_config(const cudaLaunchConfig_t& config);

}  // namespace barcuda::runtime
