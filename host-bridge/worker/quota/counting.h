// SPDX-License-Identifier: Apache-2.0
// counting.h: what a command counts as (Counts in link.h), once it has succeeded: for `barcuda ps`, `top` and the metrics. What a
// graph does is a launch of the graph.
#pragma once
#include <cuda.h>

#include <tuple>

#include "host-bridge/between/link.h"
#include "shm-device/rows/commands.h"

namespace barcuda {

inline void count_copy(Counts& counts, Counts::Way way, std::uint64_t bytes) {
    add(counts.copies[way], 1);
    add(counts.copied[way], bytes);
}

inline void count_box(Counts& counts, const CUDA_MEMCPY3D& box) {
    const bool from_host = box.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = box.dstMemoryType == CU_MEMORYTYPE_HOST;
    count_copy(counts,
               to_host     ? Counts::to_host
               : from_host ? Counts::to_device
                           : Counts::on_device,
               box.WidthInBytes * box.Height * box.Depth);
}

template <Op op> void count(Counts& counts, const typename RowOf<op>::Parameters& parameters) {
    if constexpr (op == Op::launch || op == Op::try_launch) add(counts.launches, 1);
    else if constexpr (op == Op::cuGraphLaunch) add(counts.graph_launches, 1);
    else if constexpr (op == Op::write_fence) add(counts.waits, 1);
    else if constexpr (op == Op::cuMemcpyHtoDAsync_v2 || op == Op::copy_in)
        count_copy(counts, Counts::to_device, std::get<2>(parameters).value);
    else if constexpr (op == Op::cuMemcpyDtoHAsync_v2 || op == Op::copy_out)
        count_copy(counts, Counts::to_host, std::get<2>(parameters).value);
    else if constexpr (op == Op::cuMemcpyDtoD_v2 || op == Op::cuMemcpyDtoDAsync_v2)
        count_copy(counts, Counts::on_device, std::get<2>(parameters).value);
    else if constexpr (op == Op::cuMemcpyPeer) count_copy(counts, Counts::on_device, std::get<4>(parameters).value);
    else if constexpr (op == Op::cuMemcpy3DAsync_v2) count_box(counts, std::get<0>(parameters).value);
    else if constexpr (op == Op::box_in) count_copy(counts, Counts::to_device, std::get<2>(parameters).value);
    else if constexpr (op == Op::box_out) count_copy(counts, Counts::to_host, std::get<2>(parameters).value);
}

}  // namespace barcuda
