// SPDX-License-Identifier: Apache-2.0
// box.h: copies of rows and boxes as the driver describes them; graphs (graph_nodes.cc) put the same ones into nodes.
#pragma once
#include "guest-allocator/runtime/runtime.h"

namespace barcuda::runtime {

// One end of a copy: an array, or rows in memory. x in bytes, y in rows.
struct Pointer {
    cudaArray_t array;
    void* memory;
    std::size_t pitch, x, y;
};

// How a copy is ordered: in a stream, or in the default stream with the caller waiting as cudaMemcpy2D does.
struct Stream {
    cudaStream_t handle;
    bool wait = false;
};
inline constexpr Stream then_wait = {nullptr, true};

cudaError_t rows(Pointer to, Pointer from, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                 Stream stream);                                                    // records
cudaError_t driver_copy(const cudaMemcpy3DParms& parameters, CUDA_MEMCPY3D* copy);  // does not
cudaError_t driver_copy(const cudaMemcpy3DPeerParms& parameters, CUDA_MEMCPY3D_PEER* copy);
cudaError_t runtime_copy(const CUDA_MEMCPY3D& copy, cudaMemcpy3DParms* parameters);  // the way back

}  // namespace barcuda::runtime
