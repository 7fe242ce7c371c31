// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/service.h"

#include <systemd/sd-daemon.h>

#include <cstdint>
#include <cstdlib>

namespace barcuda {

Service::Service() {
    unsetenv("WATCHDOG_PID");  // systemd means its main process, the keeper; this one tells it that it lives
    std::uint64_t microseconds = 0;
    if (sd_watchdog_enabled(0, &microseconds) > 0) interval_ = std::chrono::microseconds(microseconds) / 4;
}

void Service::ready(const std::string& serves) const { sd_notify(0, ("READY=1\nSTATUS=" + serves).c_str()); }

void Service::beat(Clock::time_point now) {
    if (interval_.count() == 0 || now < next_) return;
    next_ = now + interval_;
    sd_notify(0, "WATCHDOG=1");
}

void Service::leaving() const { sd_notify(0, "STOPPING=1"); }

}  // namespace barcuda
