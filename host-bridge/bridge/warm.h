// SPDX-License-Identifier: Apache-2.0
// warm.h: how many workers wait, with their driver open, for clients to come. As many as an operator says, always; and more, up to a second
// number, where clients have come faster than that: one for each that found none, until nobody has come for a while. Until the first
// client comes there may be others: who starts a bridge for one program wants a worker that waits for it, and none behind that. More than
// always wait only within the memory that an operator gives them.
// Drivers start one behind the other in the kernel, and hold up what others ask of theirs. So nobody's worker begins once clients have
// stopped coming for a moment, theirs have started, and the last of its kind has; or now and then, where that does not happen. The moment is
// longer for many that came together: their first launches and copies take a driver as long.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace barcuda {

struct WarmOptions {
    unsigned least = 1, most = 0;  // most below least: least
    std::chrono::seconds idle{60};
    unsigned first = 0;        // until a client has come
    std::uint64_t memory = 0;  // bytes of the host that all of them may hold, where more wait than always; 0: no limit
};

class WarmPool {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit WarmPool(WarmOptions options) : options_(options), wanted_(options.least) {}

    // A client has come that a waiting worker serves, or would have served, had there been one. (The first one's may start still.)
    void client_came(bool found, Time now) {
        if (now - last_ >= least) together_ = 0;
        ++together_;
        last_ = now, came_ = true;
        if (std::exchange(options_.first, 0) == 0 && !found && wanted_ < most()) ++wanted_;
    }
    // So much is held by the one that holds most of those that wait.
    void note_memory(std::uint64_t bytes) { each_ = bytes; }
    // How many are to wait now.
    unsigned wanted(Time now) {
        if (now - last_ >= options_.idle) wanted_ = options_.least;
        const unsigned wish = std::max(wanted_, options_.first);
        const std::uint64_t room = options_.memory && each_ ? options_.memory / each_ : wish;
        return room < wish ? std::max(options_.least, static_cast<unsigned>(room)) : wish;
    }
    bool looks_at_memory() const { return options_.memory != 0; }
    // Whether those may begin that are wanted and not there. `one_starts`: a worker, for a client or for nobody.
    bool may_begin(bool one_starts, Time now) {
        const bool quiet = !came_ || now - last_ >= settled();
        if (!one_starts && quiet) return put_off_since_ = {}, true;
        if (put_off_since_ == Time{}) put_off_since_ = now;
        if (now - put_off_since_ < longest) return false;
        put_off_since_ = now;
        return true;
    }
    static constexpr std::chrono::milliseconds least{50}, longest{10000};
    std::chrono::milliseconds settled() const {
        constexpr std::chrono::milliseconds more{20}, most{1000};
        return std::min(most, least + more * std::max(together_ - 1, 0));
    }
    unsigned most() const { return std::max({options_.least, options_.most, options_.first}); }

  private:
    WarmOptions options_;
    unsigned wanted_;
    std::uint64_t each_ = 0;  // bytes
    Time last_{}, put_off_since_{};
    bool came_ = false;
    int together_ = 0;  // clients that came with no moment between them
};

}  // namespace barcuda
