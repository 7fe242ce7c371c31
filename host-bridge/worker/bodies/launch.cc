// SPDX-License-Identifier: Apache-2.0
// launch.cc: launches that are made at once, and queries that depend on a launch's shape. (Launches that may be held:
// launches.h. The guest's half: guest-allocator/driver/launch.cc.)
#include "host-bridge/worker/session/launch.h"

#include "host-bridge/worker/session/session.h"

namespace barcuda::ext {
CUresult active_clusters(int* clusters, CUfunction function, Shape shape) {
    if (!driver().cuOccupancyMaxActiveClusters) return CUDA_ERROR_NOT_SUPPORTED;
    const LaunchConfig config(shape, nullptr);
    return driver().cuOccupancyMaxActiveClusters(clusters, function, &config.config);
}
CUresult cluster_size(int* blocks, CUfunction function, Shape shape) {
    if (!driver().cuOccupancyMaxPotentialClusterSize) return CUDA_ERROR_NOT_SUPPORTED;
    const LaunchConfig config(shape, nullptr);
    return driver().cuOccupancyMaxPotentialClusterSize(blocks, function, &config.config);
}

CUresult encode_tiled(CUtensorMap* map, TensorMap t) {
    if (!driver().cuTensorMapEncodeTiled) return CUDA_ERROR_NOT_SUPPORTED;
    if (t.rank > 5) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuTensorMapEncodeTiled(map, t.type, t.rank, reinterpret_cast<void*>(t.address), t.dimensions,
                                           t.strides, t.box, t.element_strides, t.interleave, t.swizzle, t.promotion,
                                           t.fill);
}
CUresult encode_im2col(CUtensorMap* map, TensorMap t) {
    if (!driver().cuTensorMapEncodeIm2col) return CUDA_ERROR_NOT_SUPPORTED;
    if (t.rank > 5) return CUDA_ERROR_INVALID_VALUE;
    return driver().cuTensorMapEncodeIm2col(map, t.type, t.rank, reinterpret_cast<void*>(t.address), t.dimensions,
                                            t.strides, t.lower, t.upper, t.channels, t.pixels, t.element_strides,
                                            t.interleave, t.swizzle, t.promotion, t.fill);
}

CUresult replace_address(CUtensorMap* map, CUdeviceptr address) {
    if (!driver().cuTensorMapReplaceAddress) return CUDA_ERROR_NOT_SUPPORTED;
    return driver().cuTensorMapReplaceAddress(map, reinterpret_cast<void*>(address));
}

CUresult launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes) {
    return shape.cooperative || shape.clustered() || session().recording().on()
               ? try_launch(function, shape, stream, parameters, bytes)
               : session().launches().hold(function, shape, stream, parameters, bytes);
}

CUresult try_launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes) {
    session().launches().flush();
    return session().launches().launch({function, shape, parameters, bytes}, stream);
}

}  // namespace barcuda::ext
