// SPDX-License-Identifier: Apache-2.0
// visitors.h: which connections a server of untrusted peers closes, so that peers that send nothing, or one byte at a
// time, do not keep others out. Each connection has a limited time for a request, and after an answer for the next one.
// If there are too many, the longest silent connection of the address with most of them is closed. The server reports
// arrivals, answers and ends, and closes what this class names.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace barcuda {

class Visitors {
  public:
    using Clock = std::chrono::steady_clock;
    using Who = const void*;
    // `grace`: the time that each connection has even if there are too many, so that a peer that asks at once is
    // answered.
    Visitors(std::size_t most, Clock::duration patience, Clock::duration grace)
        : most_(most), patience_(patience), grace_(grace) {}

    void came(Who who, int fd, std::string address, Clock::time_point now = Clock::now());
    void answered(Who who, Clock::time_point now = Clock::now());
    void left(Who who) { all_.erase(who); }

    // The descriptors to close now. Each is named once.
    std::vector<int> overdue(Clock::time_point now = Clock::now());
    // When to ask again, if nothing happens before; nothing: there is no connection.
    std::optional<Clock::time_point> next() const;

  private:
    struct Visitor {
        int fd;
        std::string address;
        Clock::time_point since;  // when it came, or was answered last
        bool served = false, closing = false;
    };
    bool too_many() const;
    Visitor* superfluous(Clock::time_point now);

    const std::size_t most_;
    const Clock::duration patience_, grace_;
    std::map<Who, Visitor> all_;
};

}  // namespace barcuda
