// SPDX-License-Identifier: Apache-2.0
// control.h: the socket for `barcuda limit` (limits_link.h), `barcuda pause` (pause_link.h), `barcuda ps`
// (list_link.h), `barcuda upgrade` (upgrade_link.h) and `barcuda suspend` (suspend_link.h). The bridge waits for no
// visitor: it reads a request when it has arrived, and drops an answer that is not read. It admits a few visitors at a
// time, processes of root and of the bridge's own user.
#pragma once
#include <sys/socket.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/between/list_link.h"
#include "host-bridge/between/pause_link.h"
#include "host-bridge/between/suspend_link.h"
#include "host-bridge/between/upgrade_link.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/visitor.h"

namespace barcuda {

class Control {
  public:
    Control() = default;
    ~Control();
    Control(const Control&) = delete;
    // Makes the socket at which tools ask.
    Failure open(int region);
    struct Answers {  // each fills in a reply
        std::function<void(const LimitRequest&, LimitReply&, const ucred& by)> limits;
        std::function<void(const ListRequest&, ListReply&, const ucred& by)> list;
        std::function<void(const PauseRequest&, PauseReply&, const ucred& by)> pause;
        std::function<void(const UpgradeRequest&, UpgradeReply&, const ucred& by)> upgrade;
        // The descriptors go with the reply.
        std::function<std::vector<File>(const SuspendRequest&, SuspendReply&, const ucred& by)> suspend;
        std::function<bool(const Visitor&)> is_worker;  // workers are not admitted
    };
    // Admits visitors and answers them from now on.
    void serve(Loop& loop, Answers answers);

  private:
    struct Seat {
        File socket;
        ucred who;
        Loop::Watch watch;  // ends before the socket is closed
    };
    void greet(Loop& loop);
    void answer(Seat& visitor);
    File listener_;
    std::string path_;
    Answers answers_;
    Loop::Watch knocks_;
    std::list<Seat> visitors_;  // the oldest first
};

}  // namespace barcuda
