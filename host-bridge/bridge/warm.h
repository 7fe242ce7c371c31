// SPDX-License-Identifier: Apache-2.0
// warm.h: how many workers wait, with their driver open, for clients. At least as many as the operator says; and more,
// up to a second number, if clients have come faster: one more for each that found none, until no client has come for
// some time. Before the first client another number may apply: an operator who starts a bridge for one program wants a
// worker that waits for it, and no more. Extra workers wait only within the memory that the operator allows.
// Drivers start one after the other in the kernel, and delay calls of other drivers. So a worker without a client
// starts only when no client has come for a moment, the clients' own workers have started, and so has the last waiting
// one; or at intervals, if that does not happen. The moment is longer after many clients that came together: their
// first launches and copies keep a driver busy as long.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace barcuda {

struct WarmOptions {
    unsigned least = 1, most = 0;  // most below least: least
    std::chrono::seconds idle{60};
    unsigned first = 0;        // before the first client
    std::uint64_t memory = 0;  // bytes of host memory for all of them, if more wait than always; 0: no limit
};

class WarmPool {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit WarmPool(WarmOptions options) : options_(options), wanted_(options.least) {}

    // A client has come that a waiting worker serves, or would have served. (The first client's worker may still be
    // starting.)
    void client_came(bool found, Time now) {
        if (now - last_ >= least) together_ = 0;
        ++together_;
        last_ = now;
        came_ = true;
        if (std::exchange(options_.first, 0) == 0 && !found && wanted_ < most()) ++wanted_;
    }
    // The most that one of the waiting workers holds.
    void note_memory(std::uint64_t bytes) { each_ = bytes; }
    // How many should wait now.
    unsigned wanted(Time now) {
        if (now - last_ >= options_.idle) wanted_ = options_.least;
        const unsigned wish = std::max(wanted_, options_.first);
        const std::uint64_t room = options_.memory && each_ ? options_.memory / each_ : wish;
        return room < wish ? std::max(options_.least, static_cast<unsigned>(room)) : wish;
    }
    bool looks_at_memory() const { return options_.memory != 0; }
    // Whether missing workers may start. `one_starts`: a worker is starting, for a client or in advance.
    bool may_begin(bool one_starts, Time now) {
        const bool quiet = !came_ || now - last_ >= settled();
        if (!one_starts && quiet) {
            put_off_since_ = {};
            return true;
        }
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
    int together_ = 0;  // clients that came without a moment between them
};

}  // namespace barcuda
