// SPDX-License-Identifier: Apache-2.0
// leave.h: how a client leaves its worker, as the bridge orders (between/carry.h): the worker says what stands in the
// way, or writes down all that another worker needs to go on with the client (wake.h). Nothing changes for the client:
// it may also go on here.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/failure.h"
#include "host-bridge/worker/bridge_link.h"
#include "host-bridge/worker/carriable.h"
#include "host-bridge/worker/channel.h"
#include "host-bridge/worker/supply.h"

namespace barcuda {

// All of the bytes, in either direction. `what` they are, for the message.
Failure write_all(const File& to, std::span<const std::byte> bytes, std::string_view what);
Failure read_all(const File& from, std::span<std::byte> bytes, std::string_view what);
void answer(CarryPlace& place, std::uint32_t order, const Hindrance& hindrance);

class Leave {
  public:
    Leave(Session& session, ChannelReader& reader, Supply& supply, BridgeLink& link, CarryPlace& place);
    ~Leave();

    // Called while the client is held: follows an order.
    void look();
    // Between commands of a client that runs: passes some of it on ahead, if that was ordered, and never waits. True:
    // there is more.
    bool look_ahead() { return (ahead_ || observe(place_.order) != seen_) && pass_ahead(); }
    // From an order on, until the client goes on here, the client is answered nothing.
    bool rests() const { return rests_; }
    // The client was held, and runs again: whatever was ordered is over.
    void go_on();

  private:
    Hindrance check();
    Hindrance write(BridgeLink::Parts& parts);
    Failure write_memory(BridgeLink::Parts& parts);
    struct Ahead;
    bool pass_ahead();
    Failure begin_ahead();

    Session& session_;
    ChannelReader& reader_;
    Supply& supply_;
    BridgeLink& link_;
    CarryPlace& place_;
    std::uint32_t seen_ = 0;  // the last order
    std::unique_ptr<Ahead> ahead_;
    bool rests_ = false;
};

}  // namespace barcuda
