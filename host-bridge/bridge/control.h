// SPDX-License-Identifier: Apache-2.0
// control.h: the door for `barcuda limit` (limits_link.h), and for who lists clients (list_link.h). It waits for nobody: whoever has come
// has said what he wants, or is left until he does; who takes no answer gets none. Only so many are let in at a time; and only root and the
// bridge's own user can come.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/between/list_link.h"
#include "host-bridge/bridge/visitor.h"

namespace barcuda {

class Control {
  public:
    Control() = default;
    ~Control();
    Control(const Control&) = delete;
    // Why there is none; empty: it is open.
    std::string open(int region);
    void watch(std::vector<pollfd>& fds) const;
    struct Answers {  // each fills in a reply
        std::function<void(const LimitRequest&, LimitReply&, const ucred& by)> limits;
        std::function<void(const ListRequest&, ListReply&, const ucred& by)> list;
        std::function<bool(const Visitor&)> is_worker;  // who is one is not let in
    };
    // What has come of those descriptors, of which the first is at `fds`.
    void answer(const pollfd* fds, const Answers& answers);

  private:
    void greet(const std::function<bool(const Visitor&)>& is_worker);
    File listener_;
    std::string path_;
    struct Seat {
        File socket;
        ucred who;
    };
    std::list<Seat> visitors_;  // the oldest first
};

}  // namespace barcuda
