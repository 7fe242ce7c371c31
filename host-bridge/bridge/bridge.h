// SPDX-License-Identifier: Apache-2.0
// bridge.h: the supervisor of one region. It admits clients, gives each a worker process of its own, grants heap memory, and cleans up when
// a client, a worker or the whole guest ends. It never opens the CUDA driver and never reads a command. It serves all clients of the region
// in one loop, so it waits for none of them and for no worker.
//
//   startup.h        what is open before the first client       clients.h        who is there, by slot (client.h, books.h)
//   launcher.h       how a worker starts (spawn.h)              acceptor.h       a client gets a worker
//   worker_process.h a worker's life                            requests.h       what workers ask
//   pool.h           workers without a client                   heap_desk.h, limits_desk.h, list_desk.h
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/acceptor.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/heap_desk.h"
#include "host-bridge/bridge/launcher.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/list_desk.h"
#include "host-bridge/bridge/monitoring.h"
#include "host-bridge/bridge/options.h"
#include "host-bridge/bridge/place.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/requests.h"
#include "host-bridge/bridge/service.h"
#include "host-bridge/bridge/startup.h"
#include "host-bridge/bridge/visitor.h"

namespace barcuda {

class Bridge {
  public:
    explicit Bridge(BridgeOptions options) { ground_.options = std::move(options); }
    // Serves until SIGINT or SIGTERM. Returns the exit status.
    int run();

  private:
    using Clock = std::chrono::steady_clock;
    // What serves clients, from when the region is open. Each part needs those before it, and no other.
    struct Desks {
        Desks(Ground& ground, Monitoring& monitoring, std::chrono::system_clock::time_point since);
        Grants grants;
        Shared shared;
        Quotas quotas;
        Totals totals;
        Clients clients;
        LimitsDesk limits;
        Launcher launcher;
        Pool pool;
        HeapDesk heap;
        ListDesk list;
        Acceptor acceptor;
        Requests requests;
    };

    std::string start();
    void announce();
    void serve();
    int patience() const;
    void beat();  // says to the clients, and to systemd, that the bridge lives
    void look_at_slots();
    void look_at(Client& client);
    bool is_worker(const Visitor& visitor) const;
    template <class F> void each_worker(const F& f) const;
    void shut_down();

    Ground ground_;
    Monitoring monitoring_;
    Service service_;
    Place place_;
    std::optional<Desks> desks_;
    int signals_ = -1;                        // that end the bridge
    int opens_ = -1;                          // inotify: a process opens, reads or closes the region's file
    Clock::time_point heard_ = Clock::now();  // when anything last happened
    const std::chrono::system_clock::time_point since_ = std::chrono::system_clock::now();
};

}  // namespace barcuda
