// SPDX-License-Identifier: Apache-2.0
// resuming.h: how a bridge that has just started goes on with the clients of an earlier one, which are in its books: of
// a bridge that was killed, whose workers live, or of one that was suspended, whose clients are on a disk.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/desks.h"
#include "host-bridge/bridge/loop.h"
#include "host-bridge/bridge/startup.h"

namespace barcuda {

class Resuming {
  public:
    // `worker_of`: the worker with which a client goes on (Launcher::for_client). `stop`: readable when the bridge is
    // to stop. `beat`: says that the bridge lives; it is called in each turn of the loop.
    Resuming(Ground& ground, Desks& desks, Loop& loop, int stop, Clients::Adopt worker_of, std::function<void()> beat)
        : ground_(ground),
          desks_(desks),
          loop_(loop),
          stop_(stop),
          worker_of_(std::move(worker_of)),
          beat_(std::move(beat)) {}

    // Takes over the clients that the books have. Workers of the earlier bridge that have no client end.
    void restore();
    // Behind restore(), for clients that are on a disk: all clients go on, or none. A worker that has made everything
    // again takes no command before the others have. Nothing to do for others. Returns why they cannot go on.
    Failure wake();

  private:
    void complete_admission(Client& client);
    void restore(Client& client);
    void end_workers_left() const;
    std::vector<std::uint32_t> slots_on_the_disk();
    Failure give(std::uint32_t slot);
    Failure await_workers(std::set<std::uint32_t> missing);
    Failure look_at(std::uint32_t slot, bool& is_back);
    Failure await_go();
    bool turn(const std::function<void()>& begin);

    Ground& ground_;
    Desks& desks_;
    Loop& loop_;
    const int stop_;
    const Clients::Adopt worker_of_;
    const std::function<void()> beat_;
};

}  // namespace barcuda
