// SPDX-License-Identifier: Apache-2.0
// control.h: the door for `barcuda limit` (limits_link.h). It waits for nobody: whoever has come has said what he wants, or is left
// until he does; who takes no answer gets none. Only so many are let in at a time, and only root and the bridge's own user.
#pragma once
#include <poll.h>

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "host-bridge/limits_link.h"
#include "host-bridge/message.h"

namespace barcuda {

class Control {
  public:
    // Why there is none; empty: it is open.
    std::string open(int region);
    void watch(std::vector<pollfd>& fds) const;
    // What has come of those descriptors, of which the first is at `fds`. `serve` fills in a reply.
    void answer(const pollfd* fds, const std::function<void(const LimitRequest&, LimitReply&)>& serve);

  private:
    void greet();
    using Clock = std::chrono::steady_clock;
    File listener_;
    struct Visitor {
        File file;
        bool welcome;  // else it is told that it is not, when it has asked
    };
    std::list<Visitor> visitors_;  // the oldest first
    Clock::time_point
        deaf_until_{};  // anybody on this machine may knock: not so often that the bridge has no time for its guest
};

}  // namespace barcuda
