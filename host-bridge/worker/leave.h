// SPDX-License-Identifier: Apache-2.0
// leave.h: how a client leaves its worker, as the bridge orders (between/carry.h): the worker says what stands in the
// way, or writes down all that another worker needs to go on with the client (wake.h). Nothing changes for the client:
// it may also go on here.
#pragma once
#include <cstdint>
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
    Leave(Session& session, ChannelReader& reader, Supply& supply, BridgeLink& link, CarryPlace& place)
        : session_(session), reader_(reader), supply_(supply), link_(link), place_(place) {
        seen_ = observe(place_.order);  // the one to come here, if there was one
    }

    // Called while the client is held: follows an order.
    void look();
    // From an order on, until the client goes on here, the client is answered nothing.
    bool rests() const { return rests_; }
    void go_on();

  private:
    Hindrance check();
    Hindrance write(BridgeLink::Parts& parts);

    Session& session_;
    ChannelReader& reader_;
    Supply& supply_;
    BridgeLink& link_;
    CarryPlace& place_;
    std::uint32_t seen_ = 0;  // the last order
    bool rests_ = false;
};

}  // namespace barcuda
