// SPDX-License-Identifier: Apache-2.0
// service.h: the bridge as a unit of systemd (barcuda-bridge@.service): it reports when guests may connect, what it
// serves, that it still serves its clients, and that it ends. Without systemd it reports nothing.
#pragma once
#include <chrono>
#include <string>

namespace barcuda {

class Service {
  public:
    Service();
    void ready(const std::string& serves) const;
    void beat();  // call it at any time; without it for WatchdogSec systemd starts another bridge
    void leaving() const;

  private:
    using Clock = std::chrono::steady_clock;
    Clock::duration interval_{0};  // between two beats that systemd hears; 0: it has no watchdog
    Clock::time_point next_{};
};

}  // namespace barcuda
