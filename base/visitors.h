// SPDX-License-Identifier: Apache-2.0
// visitors.h: which connections of a server of strangers are to be closed, so that some who say nothing, or a byte now and then, keep nobody
// else out. Each has so much time for a request, and after an answer for the next one; where too many are there, the longest silent one of
// the address with most of them goes. The server says who comes, is answered and goes, and closes what this names.
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
    // `grace`: so much time each has even where too many are there: who asks at once is answered.
    Visitors(std::size_t most, Clock::duration patience, Clock::duration grace)
        : most_(most), patience_(patience), grace_(grace) {}

    void came(Who who, int fd, std::string address, Clock::time_point now = Clock::now());
    void answered(Who who, Clock::time_point now = Clock::now());
    void left(Who who) { all_.erase(who); }

    // The descriptors of those to be closed now. Each is named once.
    std::vector<int> overdue(Clock::time_point now = Clock::now());
    // When to ask again, if nothing happens before; nothing: nobody is there.
    std::optional<Clock::time_point> next() const;

  private:
    struct Visitor {
        int fd;
        std::string address;
        Clock::time_point since;  // it came, or was answered last
        bool served = false, closing = false;
    };
    bool too_many() const;
    Visitor* superfluous(Clock::time_point now);

    const std::size_t most_;
    const Clock::duration patience_, grace_;
    std::map<Who, Visitor> all_;
};

}  // namespace barcuda
