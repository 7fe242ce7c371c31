// SPDX-License-Identifier: Apache-2.0
// asked.h: a client's request for memory of the region that cannot be granted at once: why it waits, and for how long.
// Memory may have to be emptied first, or workers hold it in reserve for clients to come. Those workers are ended for a
// request once, and only where the request can be granted without their reserves; while a request waits, the bridge
// starts no worker in advance, so no new reserve takes the place of the old one.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

namespace barcuda {

class Asked {
  public:
    using Time = std::chrono::steady_clock::time_point;
    struct Facts {
        bool fits_without_reserves = false;  // the heap has a run of that size that is free or reserved
        bool must_be_emptied = false;        // the bridge has no time left for that in this turn of its loop
        bool reserved = false;               // workers that wait for clients hold reserves
        bool leaving = false;                // so do workers that have been told to end
    };
    enum class Step { wait, end_reserves, refuse };

    explicit Asked(std::uint64_t bytes) : bytes_(bytes) {}
    std::uint64_t bytes() const { return bytes_; }
    // What is to be done now that the memory could not be granted.
    Step next(const Facts& facts, Time now) {
        if (!facts.fits_without_reserves) return Step::refuse;
        if (facts.must_be_emptied) return Step::wait;  // each turn of the loop empties some of it
        if (!ended_ && facts.reserved) return ended_ = now, Step::end_reserves;
        if (!ended_ && facts.leaving) ended_ = now;  // for somebody else's sake
        return ended_ && facts.leaving && now - *ended_ < patience ? Step::wait : Step::refuse;
    }
    // A driver takes seconds to let a process go; a program's malloc waits meanwhile.
    static constexpr std::chrono::seconds patience{10};

  private:
    std::uint64_t bytes_;
    std::optional<Time> ended_;  // when reserves were told to end
};

}  // namespace barcuda
