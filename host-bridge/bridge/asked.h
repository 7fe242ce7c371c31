// SPDX-License-Identifier: Apache-2.0
// asked.h: a client's request for memory of the region that cannot be granted at once: why it waits, and for how long.
// The memory may have to be emptied first, or workers reserve it for later clients. Those workers are ended once for a
// request, and only if the request then fits. While a request waits, the bridge starts no worker in advance, so that no
// new reserve takes the place of the old one.
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
        bool leaving = false;                // so do workers that are ending
    };
    enum class Step { wait, end_reserves, refuse };

    explicit Asked(std::uint64_t bytes) : bytes_(bytes) {}
    std::uint64_t bytes() const { return bytes_; }
    // What to do now that the memory could not be granted.
    Step next(const Facts& facts, Time now) {
        if (!facts.fits_without_reserves) return Step::refuse;
        if (facts.must_be_emptied) return Step::wait;  // each turn of the loop empties some of it
        if (!ended_ && facts.reserved) {
            ended_ = now;
            return Step::end_reserves;
        }
        if (!ended_ && facts.leaving) ended_ = now;  // for another request
        return ended_ && facts.leaving && now - *ended_ < patience ? Step::wait : Step::refuse;
    }
    // A driver takes seconds to release a process; a program's malloc waits meanwhile.
    static constexpr std::chrono::seconds patience{10};

  private:
    std::uint64_t bytes_;
    std::optional<Time> ended_;  // when reserving workers were told to end
};

}  // namespace barcuda
