// SPDX-License-Identifier: Apache-2.0
// service.h: the bridge as a unit of systemd (barcuda-bridge@.service): it says when guests may come, what it serves, that
// it still looks after its clients, and that it leaves. Started by anything else it says nothing.
#pragma once
#include <chrono>
#include <string>

namespace barcuda {

class Service {
  public:
    Service();
    void ready(const std::string& serves) const;
    void beat();  // as often as you like; without it for WatchdogSec systemd starts another bridge
    void leaving() const;

  private:
    using Clock = std::chrono::steady_clock;
    Clock::duration interval_{0};  // between two beats that systemd hears; 0: it has no watchdog
    Clock::time_point next_{};
};

}  // namespace barcuda
