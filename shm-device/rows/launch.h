// SPDX-License-Identifier: Apache-2.0
// launch.h: rows of launches, occupancy, tensor maps. (What a row says: shm-device/rows/commands.h.)
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace barcuda::ext {

struct Shape {  // of a launch, in threads and blocks
    unsigned grid[3], block[3];
    unsigned shared_bytes;     // dynamic shared memory of a block
    unsigned cooperative = 0;  // 1: cuLaunchCooperativeKernel
    unsigned cluster[3] = {};  // blocks that run together; zeros: none
    unsigned spread = 0;       // CUclusterSchedulingPolicy
    bool clustered() const { return cluster[0] || cluster[1] || cluster[2]; }
};

// cuTensorMapEncodeTiled and similar functions: a description as the program gives it, of up to five dimensions.
struct TensorMap {
    CUtensorMapDataType type;
    unsigned rank;
    CUdeviceptr address;
    std::uint64_t dimensions[5] = {}, strides[4] = {};  // strides in bytes, of all dimensions but the first
    unsigned box[5] = {}, element_strides[5] = {};
    int lower[3] = {}, upper[3] = {};  // im2col: corners of the box, of all dimensions but the first and the last
    unsigned channels = 0, pixels = 0;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
};

CUresult launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes);
// The same, answered: a launch that the driver may refuse.
CUresult try_launch(CUfunction function, Shape shape, CUstream stream, const void* parameters, std::size_t bytes);

// cuOccupancyMaxActiveClusters and cuOccupancyMaxPotentialClusterSize.
CUresult active_clusters(int* clusters, CUfunction function, Shape shape);
CUresult cluster_size(int* blocks, CUfunction function, Shape shape);
CUresult encode_tiled(CUtensorMap* map, TensorMap tensor);
CUresult encode_im2col(CUtensorMap* map, TensorMap tensor);
CUresult replace_address(CUtensorMap* map, CUdeviceptr address);

}  // namespace barcuda::ext

// clang-format off
//    CUDA's function                                      how         traits, one kind per parameter
#define BARCUDA_LAUNCH_ROWS(X)                                                                       \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor,          call,       asks|current,  out, use, in, in)     \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, call,       asks|current,  out, use, in, in, in) \
    X(cuOccupancyAvailableDynamicSMemPerBlock,              call,       asks|current,  out, use, in, in)     \
    X(cuLaunchCooperativeKernel,                            guest,      plain)                       \
    X(cuLaunchKernel,                                       guest,      plain)                       \
    X(cuLaunchKernelEx,                                     guest,      plain)                       \
    X(cuOccupancyMaxActiveClusters,                         guest,      plain)                       \
    X(cuOccupancyMaxPotentialBlockSize,                     guest,      plain)                       \
    X(cuOccupancyMaxPotentialBlockSizeWithFlags,            guest,      plain)                       \
    X(cuOccupancyMaxPotentialClusterSize,                   guest,      plain)                       \
    X(cuTensorMapEncodeIm2col,                              guest,      plain)                       \
    X(cuTensorMapEncodeTiled,                               guest,      plain)                       \
    X(cuTensorMapReplaceAddress,                            guest,      plain)

//    ours
#define BARCUDA_LAUNCH_OWN_ROWS(X)                                                                            \
    X(launch,                                               post,       work|held|kernels, use, in, use, blob<4>, in) \
    X(try_launch,                                           call,       work|kernels, use, in, use, blob<4>, in)      \
    X(active_clusters,                                      call,       asks,  out, use, in)                  \
    X(cluster_size,                                         call,       asks,  out, use, in)                  \
    X(encode_tiled,                                         call,       asks,  out, in)                       \
    X(encode_im2col,                                        call,       asks,  out, in)                       \
    X(replace_address,                                      call,       asks,  inout, in)
// clang-format on
