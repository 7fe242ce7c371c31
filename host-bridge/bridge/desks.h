// SPDX-License-Identifier: Apache-2.0
// desks.h: what serves clients, from when the region is open: each part needs those before it, and no other. (A worker
// that waits may reserve memory of the heap: the launcher asks the heap desk, which is behind it, through a function.)
#pragma once
#include <chrono>

#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/acceptor.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/launcher.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/list_desk.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/monitoring.h"
#include "host-bridge/bridge/pause_desk.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/requests.h"
#include "host-bridge/bridge/startup.h"

namespace barcuda {

struct Desks {
    // `since`: the bridge has been there.
    Desks(Ground& ground, Loop& loop, Monitoring& monitoring, std::chrono::system_clock::time_point since);

    // Once in each turn of the loop, for each client: what is wanted of it, and what its worker has come to.
    void look_at(Client& client);
    // The worker of that process, waiting, serving or leaving.
    bool has_worker(pid_t process) const;

    Grants grants;
    Shared shared;
    Quotas quotas;
    Totals totals;
    Clients clients;
    LimitsDesk limits;
    Launcher launcher;
    Pool pool;
    HeapDesk heap;
    PauseDesk pauses;
    ListDesk list;
    Acceptor acceptor;
    Requests requests;
};

}  // namespace barcuda
