// SPDX-License-Identifier: Apache-2.0
// launch.h: a launch in the driver's form: with packed parameters, for launches of every kind and for nodes of graphs.
#pragma once
#include <cuda.h>

#include <cstddef>

#include "shm-device/rows/launch.h"

namespace barcuda {

// A block of parameters: the driver copies it before it returns.
struct Packed {
    std::size_t bytes;
    void* extra[5];
    Packed(const void* parameters, std::size_t size)
        : bytes(size),
          extra{CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(parameters), CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                CU_LAUNCH_PARAM_END} {}
    Packed(const Packed&) = delete;
};

// The shape and the attributes, for cuLaunchKernelEx.
struct LaunchConfig {
    CUlaunchAttribute attributes[3] = {};
    CUlaunchConfig config;
    LaunchConfig(const ext::Shape& s, CUstream stream)
        : config{s.grid[0],  s.grid[1],      s.grid[2], s.block[0], s.block[1],
                 s.block[2], s.shared_bytes, stream,    attributes, 0} {
        if (s.clustered()) {
            next(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {s.cluster[0], s.cluster[1], s.cluster[2]};
            next(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE).clusterSchedulingPolicyPreference =
                static_cast<CUclusterSchedulingPolicy>(s.spread);
        }
        if (s.cooperative) next(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
    }
    LaunchConfig(const LaunchConfig&) = delete;

  private:
    CUlaunchAttributeValue& next(CUlaunchAttributeID id) {
        CUlaunchAttribute& a = attributes[config.numAttrs++];
        a.id = id;
        return a.value;
    }
};

// The same as a node of a graph.
inline CUDA_KERNEL_NODE_PARAMS node_of(CUfunction function, const ext::Shape& s, Packed& packed) {
    return {function,   s.grid[0],      s.grid[1], s.grid[2],    s.block[0], s.block[1],
            s.block[2], s.shared_bytes, nullptr,   packed.extra, nullptr,    nullptr};
}

}  // namespace barcuda
