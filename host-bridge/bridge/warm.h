// SPDX-License-Identifier: Apache-2.0
// warm.h: how many workers wait, with their driver open, for clients to come. As many as an operator says, always; and more, up to a second
// number, where clients have come faster than that: one for each that found none, until nobody has come for a while. Until the first
// client comes there may be others: who starts a bridge for one program wants a worker that waits for it, and none behind that.
#pragma once
#include <algorithm>
#include <chrono>

namespace barcuda {

struct WarmOptions {
    unsigned least = 1, most = 0;  // most below least: least
    std::chrono::seconds idle{60};
    unsigned first = 0;  // until a client has come
};

class WarmPool {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit WarmPool(WarmOptions options) : options_(options), wanted_(options.least) {}

    // A client has come that a waiting worker serves, or would have served, had there been one.
    void client_came(bool found, Time now) {
        last_ = now;
        options_.first = 0;
        if (!found && wanted_ < most()) ++wanted_;
    }
    // How many are to wait now.
    unsigned wanted(Time now) {
        if (now - last_ >= options_.idle) wanted_ = options_.least;
        return std::max(wanted_, options_.first);
    }
    unsigned most() const { return std::max({options_.least, options_.most, options_.first}); }

  private:
    WarmOptions options_;
    unsigned wanted_;
    Time last_{};
};

}  // namespace barcuda
