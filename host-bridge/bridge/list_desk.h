// SPDX-License-Identifier: Apache-2.0
// list_desk.h: what the bridge answers to `barcuda ps` and similar commands (list_link.h): about itself, its GPUs and
// its clients. A worker counts in its sheet (link.h); the bridge reads it on request, and when the worker ends.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "host-bridge/between/list_link.h"
#include "host-bridge/between/probe.h"
#include "host-bridge/bridge/books.h"
#include "host-bridge/bridge/cards_desk.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/pause_desk.h"
#include "host-bridge/bridge/quotas.h"
#include "host-bridge/monitor/monitor.h"
#include "shm-device/doors/shape.h"

namespace barcuda {

class ListDesk {
  public:
    using Clock = std::chrono::system_clock;
    struct About {  // the bridge
        std::string name, region;
        bool no_vm = false;
        Shape shape;
        Clock::time_point since;  // when it started
    };
    struct Asks {                                            // other parts of it
        std::function<bool()> interrupts;                    // whether a VM is at the doorbell
        std::function<std::uint32_t()> warm;                 // number of waiting workers
        std::function<const Busy*(Clock::time_point)> busy;  // how busy the GPUs are; null: not known now
        std::function<void()> want_busy;                     // asks for that for the next few seconds
    };
    ListDesk(About about, Asks asks, const Clients& clients, const Quotas& quotas, const Grants& grants,
             const Totals& totals, const Host& host, const LimitsDesk& limits, const PauseDesk& pauses,
             const CardsDesk& cards);

    void serve(const ListRequest& request, ListReply& reply) const;

  private:
    void describe_host(ListReply& reply, const Busy* busy) const;
    void describe(const Client& client, ListedClient& row, const Busy* busy) const;

    const About about_;
    const Asks asks_;
    const Clients& clients_;
    const Quotas& quotas_;
    const Grants& grants_;
    const Totals& totals_;
    const Host& host_;
    const LimitsDesk& limits_;
    const PauseDesk& pauses_;
    const CardsDesk& cards_;
};

}  // namespace barcuda
