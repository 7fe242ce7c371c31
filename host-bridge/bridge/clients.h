// SPDX-License-Identifier: Apache-2.0
// clients.h: the clients of a region, by slot. A slot that a client opens gets a Client; a slot whose client has ended
// is reclaimed: its worker ends, and everything that the client held is free again.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host-bridge/between/shared.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/client.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/ledger.h"
#include "host-bridge/bridge/pool.h"
#include "host-bridge/bridge/quotas.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Clients {
  public:
    using Clock = std::chrono::steady_clock;
    struct Books {
        Grants& grants;
        Shared& shared;
        Quotas& quotas;
        Totals& totals;
        const Ledger* ledger = nullptr;  // null: nothing is written down
    };
    // Called when a worker begins to serve a slot; 0: no worker serves it any more.
    using Roster = std::function<void(std::uint32_t slot, pid_t worker)>;

    // `doorbell`: an eventfd that interrupts the guest; -1: none. `wrapper`: the command that runs each worker; empty:
    // none.
    Clients(HostRegion& region, Books books, int doorbell, std::string wrapper, Roster roster);

    // Reclaims what an earlier bridge has left.
    void reclaim_left();
    // Goes on with the clients of an earlier bridge that was killed, as its ledger says, and with all that they hold.
    // `adopt` gives the worker of a slot; null: there is none any more. A client without one ends; it is told so if
    // `tells`.
    using Adopt = std::function<std::unique_ptr<WorkerProcess>(std::uint32_t slot, const KeptClient& its)>;
    void restore(const Adopt& adopt, bool tells = true);
    // Closes the slots of programs that have ended, where no module does that.
    void close_ended();
    bool has_left(const Client& client) const {
        return observe(region_.slots()[client.slot()].closed) == client.channel.opening;
    }
    // Looks at all slots: reclaims those whose clients have gone, meets new clients. `f` is called with each client
    // that is there. Returns the clients that wait to be admitted, in the order in which they came.
    std::vector<Client*> look(const std::function<void(Client&)>& f, Clock::time_point now = Clock::now());
    // The client has a worker, or was refused: it is not admitted a second time.
    void admitted(Client& client, Client::Admission how);
    // The worker of that client has ended, or is ending.
    void worker_ended(Client& client);
    // Reaps workers that were told to end.
    void reap_workers();

    Clock::time_point last_came() const { return last_came_; }
    bool one_leaves() const;       // a worker of theirs is ending
    std::uint64_t served() const;  // number of clients whose worker was not told to end
    Pool::Clients state() const;   // for the pool
    const Roster& roster() const { return roster_; }
    const Shape& shape() const { return region_.shape(); }

    Client* operator[](std::uint32_t slot) const { return slots_[slot].get(); }
    std::size_t size() const { return slots_.size(); }
    template <class F> void each(const F& f) const {
        for (const auto& client : slots_)
            if (client) f(*client);
    }

  private:
    void meet(std::uint32_t slot, std::uint32_t opening, Clock::time_point now);
    bool map(std::uint32_t slot, std::uint32_t opening, Channel& channel, Clock::time_point now);
    void reclaim(std::uint32_t slot);
    struct How {  // a client of an earlier bridge goes on
        const Adopt& adopt;
        bool tells;
        Clock::time_point now;
    };
    void restore(std::uint32_t slot, const KeptClient& kept, const How& how);
    bool begins_again(Client& client);
    Client::Books books(std::uint32_t slot) const;
    std::string close(Client& client);

    HostRegion& region_;
    const Books books_;
    const int doorbell_;
    const std::string wrapper_;
    const Roster roster_;
    const std::span<Twice<KeptClient>> kept_;  // by slot; empty: nothing is written down
    const std::span<Twice<KeptRequest>> requests_;
    std::vector<std::unique_ptr<Client>> slots_;  // null: none
    struct Unmapped {
        std::uint32_t opening;
        Clock::time_point again;
    };
    std::map<std::uint32_t, Unmapped> unmapped_;  // channels that cannot be mapped yet, by slot
    std::uint64_t met_ = 0;
    Clock::time_point last_came_{}, owners_looked_{};
};

}  // namespace barcuda
