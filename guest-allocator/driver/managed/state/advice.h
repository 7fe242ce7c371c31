// SPDX-License-Identifier: Apache-2.0
// advice.h: a program's hints about the parts of an allocation (cudaMemAdvise, cudaMemPrefetchAsync), kept to be
// returned.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace barcuda::guest::managed {

struct Hints {
    bool read_mostly = false;
    CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    CUmemLocation prefetched{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
    std::uint32_t accessed_by = 0;  // a bit for each device
    bool by_cpu = false;
};

class Advice {
  public:
    // For bytes [begin, end) of the allocation: change(Hints&).
    template <class Change> void set(std::size_t begin, std::size_t end, Change change) {
        split(begin);
        split(end);
        for (Part& p : parts_)
            if (p.begin >= begin && p.begin < end) change(p.hints);
    }
    template <class Look> void each(std::size_t begin, std::size_t end, Look look) const {
        for (std::size_t i = 0; i < parts_.size(); ++i) {
            const std::size_t behind = i + 1 < parts_.size() ? parts_[i + 1].begin : end;
            if (parts_[i].begin < end && std::max(behind, parts_[i].begin) > begin) look(parts_[i].hints);
        }
    }

  private:
    struct Part {  // up to the beginning of the next one
        std::size_t begin = 0;
        Hints hints;
    };
    void split(std::size_t at) {
        const auto behind = std::upper_bound(parts_.begin(), parts_.end(), at,
                                             [](std::size_t a, const Part& p) { return a < p.begin; });
        const Part& holds = *(behind - 1);
        if (const Part other{at, holds.hints}; holds.begin != at) parts_.insert(behind, other);
    }
    std::vector<Part> parts_ = std::vector<Part>(1);  // sorted; the first begins at 0
};

}  // namespace barcuda::guest::managed
