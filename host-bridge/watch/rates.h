// SPDX-License-Identifier: Apache-2.0
// rates.h: what clients and bridges do in a second: the difference between two looks.
#pragma once
#include <array>
#include <chrono>
#include <map>
#include <tuple>

#include "host-bridge/watch/bridges.h"

namespace barcuda::watch {

struct Rates {                                                 // a second
    double commands = 0, launches = 0, waits = 0, copies = 0;  // launches: including those of graphs
    std::array<double, Counts::ways> copied{};                 // bytes
};

class Since {
  public:
    using Clock = std::chrono::steady_clock;
    explicit Since(const View& before, Clock::time_point then = Clock::now());
    // What was done since then; all zero for a client or bridge that was not there.
    Rates of(const Bridge& bridge) const;
    Rates of(const Bridge& bridge, const Client& client) const;
    void look_again(Clock::time_point now = Clock::now()) {
        seconds_ = std::chrono::duration<double>(now - then_).count();
    }

  private:
    Rates rates(const Counts& before, const Counts& now) const;
    Clock::time_point then_;
    double seconds_ = 1;
    std::map<std::tuple<pid_t, int, int>, Counts> before_;  // by bridge, channel and worker; -1: the bridge's own
};

}  // namespace barcuda::watch
