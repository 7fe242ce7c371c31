// SPDX-License-Identifier: Apache-2.0
// suspending.h: how far a suspend is, and what it may do next. It changes nothing for clients before its end: from
// every step but the last one the way back is open, and it is taken where the command says nothing more.
//
//   none --> begun --> frozen --> ended        begun   new programs wait; the command pauses the clients
//     ^        |          |                    frozen  nothing changes the books: workers' requests wait
//     +--------+----------+                    ended   the bridge ends, and tells no client
//
#pragma once
#include <chrono>
#include <cstdint>
#include <set>

#include "base/failure.h"
#include "host-bridge/between/suspend_link.h"

namespace barcuda {

class Suspending {
  public:
    using Clock = std::chrono::steady_clock;
    // A command that writes to a slow disk asks every second; one that was killed asks no more.
    static constexpr std::chrono::seconds patience{15};

    static const char* name(SuspendStep step);
    static bool permits(SuspendStep from, SuspendStep to);

    SuspendStep step() const { return step_; }
    bool under_way() const { return step_ != SuspendStep::none; }
    bool frozen() const { return step_ == SuspendStep::frozen; }
    bool ended() const { return step_ == SuspendStep::ended; }

    // `paused`: slots of clients that were paused before; they stay so if it is given up.
    Failure begin(std::set<std::uint32_t> paused, Clock::time_point now);
    // `running`: the channel of a client that is not held; -1: there is none.
    Failure freeze(std::int64_t running);
    Failure finish();
    void give_up();

    // The command has asked something.
    void heard(Clock::time_point now) { heard_ = now; }
    bool is_late(Clock::time_point now) const;
    // Whether that client is to run again if it is given up.
    bool resumes(std::uint32_t slot) const { return !paused_.contains(slot); }

  private:
    Failure enter(SuspendStep to);

    SuspendStep step_ = SuspendStep::none;
    std::set<std::uint32_t> paused_;
    Clock::time_point heard_{};
};

}  // namespace barcuda
