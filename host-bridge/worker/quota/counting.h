// SPDX-License-Identifier: Apache-2.0
// counting.h: what a command counts as (Counts in link.h) when it has succeeded: for `barcuda ps`, `top` and the
// metrics. A graph counts as one launch of a graph, whatever it contains.
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
    using Row = RowOf<op>;
    constexpr std::size_t bytes = Row::template at<std::size_t>;
    if constexpr (launches_graph<op>) add(counts.graph_launches, 1);
    else if constexpr (has(op, trait::kernels)) add(counts.launches, 1);
    else if constexpr (has(op, trait::waits)) add(counts.waits, 1);
    else if constexpr ((traits_of(op) & trait::copies) == trait::copies)
        count_box(counts, std::get<Row::template at<const CUDA_MEMCPY3D*>>(parameters).value);
    else if constexpr (has(op, trait::copies))
        count_copy(counts,
                   has(op, trait::copies_in)    ? Counts::to_device
                   : has(op, trait::copies_out) ? Counts::to_host
                                                : Counts::on_device,
                   std::get<bytes>(parameters).value);
}

}  // namespace barcuda
