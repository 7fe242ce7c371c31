// SPDX-License-Identifier: Apache-2.0
// bridge.h: the supervisor of one region. It admits clients, gives each a worker process of its own, grants heap
// memory, and cleans up when a client, a worker or the whole guest ends. It never opens the CUDA driver and never reads
// a command. It serves all clients of the region in one loop, so it never waits for a single client or worker.
//
//   loop.h           what the bridge waits for (patience.h)     desks.h          all that serves clients, in order:
//   startup.h        what is open before the first client       clients.h        clients by slot (client.h, books.h)
//   launcher.h       how a worker starts (spawn.h)              acceptor.h       a client gets a worker
//   worker_process.h a worker's life                            requests.h       what workers ask
//   pool.h           workers without a client                   heap_desk.h, limits_desk.h, list_desk.h, pause_desk.h
//   resuming.h       an earlier bridge's clients go on
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/bridge/client.h"
#include "host-bridge/bridge/desks.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/monitoring.h"
#include "host-bridge/bridge/options.h"
#include "host-bridge/bridge/place.h"
#include "host-bridge/bridge/service.h"
#include "host-bridge/bridge/startup.h"
#include "host-bridge/bridge/visitor.h"

namespace barcuda {

class Bridge {
  public:
    // `keeper`: a link to it; none: the bridge keeps nothing beyond its own life.
    explicit Bridge(BridgeOptions options, File keeper = {}) {
        ground_.options = std::move(options);
        ground_.kept = Kept(std::move(keeper));
    }
    // Serves until SIGINT or SIGTERM. Returns the exit status.
    int run();

  private:
    using Clock = std::chrono::steady_clock;
    Failure start();
    void announce();
    void listen();
    void serve();
    std::chrono::milliseconds patience() const;
    void beat();  // tells the clients, systemd and the keeper that the bridge lives
    Failure resume();
    int fail(const Failure& error) const;
    void look_at(Client& client);
    bool is_worker(const Visitor& visitor) const;
    void shut_down();
    void leave_asleep();

    Loop loop_;  // constructed before everything that uses it
    Ground ground_;
    Monitoring monitoring_;
    Service service_;
    Place place_;
    std::optional<Desks> desks_;
    File signals_;  // that end the bridge
    File opens_;    // inotify: a process opens, reads or closes the region's file
    Loop::Watch on_signal_, on_open_, on_ring_;
    Clock::time_point heard_ = Clock::now();  // when anything last happened
    Clock::time_point told_alive_{};          // the keeper
    const std::chrono::system_clock::time_point since_ = std::chrono::system_clock::now();
};

}  // namespace barcuda
