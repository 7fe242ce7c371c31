// SPDX-License-Identifier: Apache-2.0
// shape.h: how a region is divided. The numbers are the header's (layout.h), as they were when this process checked
// them: a copy of its own, since a guest can write to the header at any time.
#pragma once
#include <cstdint>

#include "shm-device/layout.h"
#include "shm-device/windows.h"

namespace barcuda {

struct Shape {
    // Where this process has the region: at the header's base, or at the door's. 0 and 0: there is no region, and no
    // pointer lies in it.
    std::uint64_t base = 0, size = 0;
    std::uint64_t granule = 0, extents_offset = 0;
    std::uint32_t channel_count = 0, granule_count = 0;
    Windows windows;

    Shape() = default;
    explicit Shape(const barcuda_header& checked)
        : base(checked.base),
          size(checked.size),
          granule(checked.granule),
          extents_offset(checked.extents_offset),
          channel_count(checked.channel_count),
          granule_count(checked.granule_count),
          windows(windows_of(checked)) {}
};

}  // namespace barcuda
