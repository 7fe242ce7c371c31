// SPDX-License-Identifier: Apache-2.0
// suspend_desk.h: how the bridge is suspended: it answers `barcuda suspend` (suspend_link.h), asks workers to carry
// their clients, and gives the command what it writes. Suspending (suspending.h) decides what may follow what.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/suspend_link.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/bridge/pause_desk.h"
#include "host-bridge/bridge/suspending.h"

namespace barcuda {

class SuspendDesk {
  public:
    using Clock = Suspending::Clock;
    // How a worker is asked, and what it has answered.
    struct Workers {
        // `check`: it answers whether its client can be carried. Otherwise it also writes: `ends` gets the reading ends
        // of births, code and memory, and a conveyor's room.
        std::function<Failure(Client& client, bool check, std::vector<File>& ends)> order;
        // Fills in state, text and cure.
        std::function<void(const Client& client, SuspendRow& row)> look;
        // Takes back what the worker has not begun.
        std::function<void(Client& client)> withdraw;
        // Passes what it has on ahead, while its client runs: `ends` gets a conveyor's end and room.
        std::function<Failure(Client& client, std::vector<File>& ends)> ahead{};
    };
    // What the command gets at `freeze`.
    struct Given {
        std::function<std::string()> description;  // of this VM, without its clients (suspended/description.h)
        std::function<File()> region, books;       // descriptors of its own; none: there is no such file
    };
    // Listens again to what workers ask.
    using Listen = std::function<void(Client&)>;

    // `kept`: has a suspend that is under way for a bridge that follows this one.
    SuspendDesk(const Clients& clients, PauseDesk& pauses, const Kept& kept, Workers workers, Given given,
                Listen listen)
        : clients_(clients),
          pauses_(pauses),
          kept_(kept),
          workers_(std::move(workers)),
          given_(std::move(given)),
          listen_(std::move(listen)) {}

    // Behind a bridge that was killed while it was suspended: the suspend is begun again, and goes on or is given up.
    void restore(Clock::time_point now = Clock::now());
    // Returns the descriptors that go with the reply.
    std::vector<File> serve(const SuspendRequest& request, SuspendReply& reply, const ucred& by,
                            Clock::time_point now = Clock::now());
    // In each turn of the loop: whether the command is still there.
    void look(Clock::time_point now = Clock::now());
    void forget(std::uint32_t slot) {
        ordered_.erase(slot);
        returning_.erase(slot);
    }

    bool admits() const { return !suspending_.under_way(); }  // new clients
    bool is_busy() const { return suspending_.under_way() || !returning_.empty(); }
    // What the command writes must not change: no client changes its state, nothing is reclaimed, no limit is set.
    bool frozen() const { return suspending_.frozen(); }
    bool ended() const { return suspending_.ended(); }

  private:
    Failure begin(Clock::time_point now);
    Failure freeze(std::vector<File>& files);
    Failure order(std::uint32_t channel, bool check, std::vector<File>& files);
    Failure order_ahead(std::uint32_t channel, std::vector<File>& files);
    Failure finish();
    void give_up(const std::string& why);
    SuspendRow row(const Client& client) const;

    const Clients& clients_;
    PauseDesk& pauses_;
    const Kept& kept_;
    const Workers workers_;
    const Given given_;
    const Listen listen_;
    Suspending suspending_;
    std::map<std::uint32_t, bool> ordered_;  // by slot: was it a check?
    std::set<std::uint32_t> frozen_;         // slots of the clients that the set has
    std::set<std::uint32_t> returning_;      // slots of clients that are to run again
};

}  // namespace barcuda
