// SPDX-License-Identifier: Apache-2.0
// place.h: whether the region's file is still where it was. Who removes it, or puts another one there (a VM's manager that thinks it its own), cuts off
// all that come from then on; those that have it mapped go on.
#pragma once
#include <sys/stat.h>

#include <chrono>
#include <string>

namespace barcuda {

class Place {
  public:
    Place() = default;
    Place(std::string path, int fd);
    void look();  // as often as you like; says so in the log, once each time that something has changed

  private:
    using Clock = std::chrono::steady_clock;
    enum class State { there, gone, another };
    std::string path_;
    struct stat own_ {};
    State state_ = State::there;
    Clock::time_point next_{};
};

}  // namespace barcuda
