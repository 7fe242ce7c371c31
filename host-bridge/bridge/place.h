// SPDX-License-Identifier: Apache-2.0
// place.h: whether the region's file is still in its place. A program that removes or replaces it (such as a VM's
// manager that takes it for its own) cuts off all later clients; those that have it mapped continue.
#pragma once
#include <sys/stat.h>

#include <chrono>
#include <string>

namespace barcuda {

class Place {
  public:
    using Clock = std::chrono::steady_clock;
    Place() = default;
    Place(std::string path, int fd);
    // Call it at any time; logs each change once.
    void look(Clock::time_point now = Clock::now());

  private:
    enum class State { there, gone, another };
    std::string path_;
    struct stat own_ {};
    State state_ = State::there;
    Clock::time_point next_{};
};

}  // namespace barcuda
