// SPDX-License-Identifier: Apache-2.0
// grants.h: which client holds which granule of the heap. First fit over a table of at most 8,192 granules; a granule
// is given out again only when its owner is gone *and* the guest's module reports no mapping of it, and only after its
// contents are gone.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "shm-device/layout.h"

namespace barcuda {

class Grants {
  public:
    // `table` is the region's; `clear` empties a run of bytes at an offset before it is granted again.
    Grants(const barcuda_header& header, barcuda_grant* table, std::function<void(std::uint64_t, std::uint64_t)> clear);

    struct Run {
        std::uint64_t offset = 0, bytes = 0;
    };  // bytes == 0: none
    // A run of at least `bytes` for this channel.
    Run grant(std::uint32_t channel, std::uint64_t bytes);
    // A run that a worker prepares while it waits for a client: nobody's, until it is handed to a channel or released.
    Run reserve(std::uint64_t bytes);
    void hand_over(Run reserved, std::uint32_t channel);
    void release(Run reserved);
    // False: that is not wholly this channel's.
    bool release(std::uint32_t channel, Run run);
    // Everything that a channel holds. Returns the number of granules.
    std::size_t release_all(std::uint32_t channel);
    // Empties a free granule that somebody has used: its pages are the host's again. False: there is none.
    bool clean_one();
    std::uint64_t held(std::uint32_t channel) const;  // bytes
    std::uint64_t held() const;                       // by all channels
    std::uint64_t free() const;                       // bytes

  private:
    bool is_free(std::size_t i) const;
    Run take(std::uint32_t owner, std::uint64_t bytes);
    void set(Run run, std::uint32_t owner);

    const std::uint64_t start_, granule_;
    barcuda_grant* const table_;
    std::vector<std::uint32_t> owner_;  // channel + 1, or `reserved`; ours: the table in the region is only told
    std::vector<bool> dirty_;
    std::size_t cleaned_ = 0;  // where clean_one() goes on
    std::function<void(std::uint64_t, std::uint64_t)> clear_;
};

}  // namespace barcuda
