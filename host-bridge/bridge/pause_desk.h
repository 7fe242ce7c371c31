// SPDX-License-Identifier: Apache-2.0
// pause_desk.h: how the bridge pauses and resumes its clients. It answers `barcuda pause` and `barcuda resume`
// (pause_link.h), gives Pausing (pausing.h) the facts, and carries out its decisions: it wakes the worker, and informs
// the client and the log.
#pragma once
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/between/pause_link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/pausing.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/monitor/monitor.h"

namespace barcuda {

class PauseDesk {
  public:
    using Clock = Pausing::Clock;
    struct Monitor {
        std::function<const Busy*(std::chrono::system_clock::time_point)> busy;  // null: not known now
        std::function<void()> want;                                              // asks for that
        std::function<bool()> asks;                                              // there is an NVML to ask
    };
    // `wrapped`: another program is between bridge and workers. `books`: a record for each slot.
    PauseDesk(Monitor monitor, const Clients& clients, const Shared& shared, const Quotas& quotas,
              const LimitsDesk& limits, const Host& host, bool wrapped, Part<Twice<KeptPause>> books = {},
              CardClaims cards = {})
        : monitor_(std::move(monitor)),
          clients_(clients),
          shared_(shared),
          quotas_(quotas),
          limits_(limits),
          host_(host),
          wrapped_(wrapped),
          pausing_(books, std::move(cards)) {}

    void serve(const PauseRequest& request, PauseReply& reply, const ucred& by);
    // Goes on with a client of an earlier bridge that was killed, which has a worker.
    void restore(Client& client);
    // Lets a client run again, for another desk. False: it does not run yet; to be called again.
    bool resume(Client& client);
    // In each turn of the loop: what has become of the orders.
    void look();
    bool is_busy() const { return pausing_.busy(); }  // look() must be called often
    bool is_busy(std::uint32_t slot) const { return pausing_.is_busy(slot); }
    // Away, by the bridge itself, until it has a command (idle_contexts.h); and back.
    Failure park(Client& client);
    void unpark(const Client& client) { pausing_.unpark(client.slot()); }
    bool is_parked(std::uint32_t slot) const { return pausing_.is_parked(slot); }
    // That client no longer has a worker.
    void forget(std::uint32_t slot) { pausing_.forget(slot); }

    Paused state(std::uint32_t slot) const { return pausing_.state(slot); }
    bool returns(std::uint32_t slot) const { return pausing_.returns(slot); }
    // And its worker has said so: it can be told something else.
    bool is_held(std::uint32_t slot) const { return state(slot) == Paused::held && !pausing_.is_busy(slot); }
    std::optional<Clock::time_point> since(std::uint32_t slot) const { return pausing_.since(slot); }

  private:
    Failure pause(Client& client, const PauseRequest& request);
    Failure pause(Client& client, Pausing::Terms terms);
    void tell(const Client& client) const;
    std::vector<Client*> meant(const PauseRequest& request) const;
    void allow_away(Client& client);
    std::uint64_t memory_of(int device) const;
    std::optional<std::uint64_t> free_memory(int device, Clock::time_point after) const;

    const Monitor monitor_;
    const Clients& clients_;
    const Shared& shared_;
    const Quotas& quotas_;
    const LimitsDesk& limits_;
    const Host& host_;
    const bool wrapped_;
    Pausing pausing_;
    Clock::time_point asked_for_room_{};  // of the monitor
};

}  // namespace barcuda
