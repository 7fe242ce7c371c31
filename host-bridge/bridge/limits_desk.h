// SPDX-License-Identifier: Apache-2.0
// limits_desk.h: how the bridge enforces limits (host-bridge/between/limits.h), and its answers to `barcuda limit`. The
// bridge checks its own grants against the limits. It writes limits that only a worker can count into the worker's
// sheet (link.h), which the worker reads before each action.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/failure.h"
#include "host-bridge/between/limits.h"
#include "host-bridge/between/limits_link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/between/turns.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/bridge/rooms.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class LimitsDesk {
  public:
    struct Rules {  // what `barcuda limit` changes
        LimitOptions& limits;
        turns::Share& share;
        Twice<KeptRules>* book = nullptr;  // where changes are written down; null: nowhere
    };
    // `shown` receives the size of each GPU as guests see it; 0: its own.
    LimitsDesk(Rules rules, Clients& clients, Quotas& quotas, const Grants& grants, HostRegion& region,
               const Host& host, turns::Member& turns, std::function<void(std::uint64_t)> shown, const Rooms& rooms);

    // ---- what is allowed
    std::uint64_t of(const Client& client, Limit limit) const;
    const turns::Share& share() const { return rules_.share; }
    std::uint64_t of_guest(Limit limit) const { return rules_.limits.guest[limit]; }
    MemoryLimits memory(const Client& client) const;
    bool may_reserve(std::uint64_t bytes) const;      // of the region, for a later client
    std::uint64_t room(std::uint32_t channel) const;  // bytes that it may still be granted
    bool has_a_channel_left() const;

    // ---- what workers learn
    // Called before a worker gets its client, and whenever something has changed.
    void tell(Client& client) const;
    // A device's size for programs that have no limit of their own.
    void show_memory() const;
    // What workers have counted without asking: for clients without a limit, or of their drivers' own.
    void note_memory() const;
    // Limits the worker's own memory, beyond what its driver took at its start: once that is known, and when the limit
    // changes.
    void bound(Client& client) const;
    // How much host memory the client's worker may take beyond what it took at its start; 0: any amount.
    std::uint64_t host_memory(const Client& client) const;
    // Reads what the client's worker has seen of turns, and tells it whether to wait for them.
    void look_at_turns(Client& client);

    // ---- `barcuda limit`
    void serve(const LimitRequest& request, LimitReply& reply, const ucred& by);

  private:
    void restore();
    void write_down() const;
    Failure refusal(const LimitRequest& request, const std::vector<Client*>& named) const;
    std::vector<Client*> named(const LimitRequest& request) const;
    Failure change_share(const LimitRequest& request);
    void change(const LimitRequest& request, Client* one, const ucred& by);
    void describe(const Client& client, LimitRow& row) const;

    const Rules rules_;
    Clients& clients_;
    Quotas& quotas_;
    const Grants& grants_;
    HostRegion& region_;
    const Host& host_;
    turns::Member& turns_;
    const std::function<void(std::uint64_t)> shown_;
    const Rooms& rooms_;
    turns::Trust trust_;
};

}  // namespace barcuda
