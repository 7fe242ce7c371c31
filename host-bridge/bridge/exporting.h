// SPDX-License-Identifier: Apache-2.0
// exporting.h: the bridge's handle on its exporter (host-bridge/exporter). It opens the socket before the exporter
// starts, so an address that is not available is an error at once; it starts the exporter, and starts it again when it
// has died. Without an address there is no exporter.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/failure.h"
#include "base/message.h"

#include "host-bridge/bridge/kept.h"

namespace barcuda {

struct MetricsOptions {
    std::string address;  // empty: none
    bool clients = false, gpus = false;
};

class Exporting {
  public:
    using Clock = std::chrono::steady_clock;
    ~Exporting();
    // Takes the address, if the options have one. `program`: the exporter; empty: the one beside this program.
    Failure open(const MetricsOptions& options, const std::string& region, const Kept& kept, std::string program = {});
    void look(Clock::time_point now = Clock::now());
    pid_t pid() const { return pid_; }  // of the exporter; -1: none

  private:
    void launch(Clock::time_point now);

    MetricsOptions options_;
    std::string region_, program_;
    File listener_;
    pid_t pid_ = -1;
    Clock::time_point launched_{};
};

}  // namespace barcuda
