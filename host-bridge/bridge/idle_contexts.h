// SPDX-License-Identifier: Apache-2.0
// idle_contexts.h: what remains on a card of a client whose memory has left (contexts, code, pools) goes, too, when the
// client has been idle for long (--context-idle) and another one waits for memory of the card. The client is *parked*:
// it is away as by `barcuda pause` (pausing.h), and comes back by itself when it has a command. Which client is parked
// says Residents (residents.h); this class asks, and gives the orders.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>

#include "host-bridge/between/residency.h"
#include "host-bridge/bridge/cards_desk.h"
#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/pause_desk.h"

namespace barcuda {

class IdleContexts {
  public:
    // `idle`: 0: none is parked.
    IdleContexts(std::chrono::seconds idle, const Clients& clients, const CardsDesk& cards, PauseDesk& pauses)
        : idle_(static_cast<residency::Time>(idle.count()) * residency::second),
          clients_(clients),
          cards_(cards),
          pauses_(pauses) {}

    // In each turn of the loop.
    void look(residency::Time now);
    void forget(std::uint32_t slot) { tried_.erase(slot); }  // its worker has ended

  private:
    const residency::Time idle_;
    const Clients& clients_;
    const CardsDesk& cards_;
    PauseDesk& pauses_;
    residency::Time next_ = 0;                        // when the next one may be parked: this one gives memory, too
    std::map<std::uint32_t, residency::Time> tried_;  // by slot: when it was told to go
};

}  // namespace barcuda
