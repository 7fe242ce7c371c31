// SPDX-License-Identifier: Apache-2.0
// graph_copy.h: copies in graphs of host memory that the device does not reach.
#pragma once
#include <cuda.h>

namespace barcuda::guest {

// Such a copy, in a stream that is being captured: one node of the graph.
CUresult capture_staged(const CUDA_MEMCPY3D& copy, CUstream stream) noexcept;

}  // namespace barcuda::guest
