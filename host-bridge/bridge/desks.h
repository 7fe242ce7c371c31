// SPDX-License-Identifier: Apache-2.0
// desks.h: the parts that serve clients once the region is open: each part needs those before it, and no other. (A
// waiting worker may reserve memory of the heap: the launcher asks the heap desk, which comes later, through a
// function.)
#pragma once
#include <chrono>
#include <functional>

#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/acceptor.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/cards_desk.h"
#include "host-bridge/bridge/carrier.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/control.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/idle_contexts.h"
#include "host-bridge/bridge/launcher.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/list_desk.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/monitoring.h"
#include "host-bridge/bridge/pause_desk.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/requests.h"
#include "host-bridge/bridge/rooms.h"
#include "host-bridge/bridge/startup.h"
#include "host-bridge/bridge/suspend_desk.h"
#include "host-bridge/bridge/upgrade_desk.h"

namespace barcuda {

struct Desks {
    // `since`: when the bridge started.
    Desks(Ground& ground, Loop& loop, Monitoring& monitoring, std::chrono::system_clock::time_point since);

    // Called in each turn of the loop for each client: handles its requests, and the state of its worker.
    void look_at(Client& client);
    // From now on listens to the requests of that client's worker, and for its end. A worker that cannot be listened to
    // ends.
    void hear(Client& client);
    void hear_requests(Client& client);
    void hear_end(Client& client);
    // What they answer to tools. A worker is no tool.
    Control::Answers answers(std::function<bool(const Visitor&)> is_worker);
    // Some part waits for a worker or a tool, and must be called often.
    bool is_busy() const;
    // Ends all workers, and waits for them. No client is told. `beat`: called meanwhile.
    void end_workers(const std::function<void()>& beat);
    // Whether that process is a worker of this bridge: waiting, serving or ending.
    bool has_worker(pid_t process) const;

    Grants grants;
    Shared shared;
    Quotas quotas;
    Rooms rooms;
    Totals totals;
    Clients clients;
    LimitsDesk limits;
    Launcher launcher;
    Pool pool;
    HeapDesk heap;
    CardsDesk cards;
    PauseDesk pauses;
    IdleContexts idle_contexts;
    ListDesk list;
    UpgradeDesk upgrades;
    Acceptor acceptor;
    Requests requests;
    Carrier carrier;
    SuspendDesk suspends;

  private:
    Loop& loop_;
};

}  // namespace barcuda
