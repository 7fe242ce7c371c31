// SPDX-License-Identifier: Apache-2.0
// service.h: the bridge as a unit of systemd (barcuda-bridge@.service): it reports when guests may connect, what it
// serves, that it still serves its clients, and that it ends. Without systemd it reports nothing.
#pragma once
#include <chrono>
#include <string>

namespace barcuda {

class Service {
  public:
    using Clock = std::chrono::steady_clock;
    Service();
    void ready(const std::string& serves) const;
    // At any time. After WatchdogSec without one systemd starts another bridge.
    void beat(Clock::time_point now = Clock::now());
    void leaving() const;

  private:
    Clock::duration interval_{0};  // between two beats that systemd hears; 0: it has no watchdog
    Clock::time_point next_{};
};

}  // namespace barcuda
