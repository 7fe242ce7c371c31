// SPDX-License-Identifier: Apache-2.0
// carrier.h: the bridge's half of between/carry.h: what it orders a worker, and how it hears what came of that.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/suspend_link.h"
#include "host-bridge/bridge/client.h"
#include "host-bridge/suspended/set.h"

namespace barcuda {

class Carrier {
  public:
    Carrier() = default;
    Carrier(const Carrier&) = delete;

    // ---- out
    // `check`: whether the client can be carried. Otherwise its worker writes, too: `ends` gets the reading ends of
    // births, code and memory, in this order, and the room of the last one (between/conveyor.h).
    Failure order(Client& client, bool check, std::vector<File>& ends);
    // A client that runs passes its code and memory on: `ends` gets the taker's end of a conveyor, and its room.
    Failure order_ahead(Client& client, std::vector<File>& ends);
    void look(const Client& client, SuspendRow& row) const;
    // An order that the worker has not seen yet is none.
    void withdraw(Client& client);
    // The same of what an earlier bridge may have begun to order: it may have handed something over already.
    static void withdraw_left(Client& client);

    // ---- back
    // Before the Assignment of its new worker: that the worker is to go on with a client. After it: with which parts.
    void announce(Client& client);
    Failure give(Client& client, const SetReader& set);
    // How far that is. `why`: what made it fail.
    enum class Returned { not_yet, able, failed };
    Returned returned(const Client& client, std::string& why) const;

  private:
    std::uint32_t tell(Client& client, carrying::Wanted wanted);

    std::map<std::uint32_t, std::uint32_t> orders_;  // by slot: the number of the last one
    std::vector<std::jthread> feeders_;              // of code and memory that were compressed
};

}  // namespace barcuda
