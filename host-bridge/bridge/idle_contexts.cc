// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/idle_contexts.h"

#include "base/log.h"

namespace barcuda {

void IdleContexts::look(residency::Time now) {
    constexpr residency::Time between_two = residency::second;
    if (!cards_) return;
    // Also without --context-idle: an earlier bridge may have had it.
    clients_.each([this](Client& client) {
        if (pauses_.is_parked(client.slot()) && cards_.works(client.slot())) pauses_.unpark(client);
    });
    if (idle_ == 0 || now < next_) return;
    const auto slot = cards_.idle_at_a_full_card(now, idle_, [&](std::uint32_t its) {
        const Client* const client = clients_[its];
        const auto tried = tried_.find(its);
        return client && client->is_served() && pauses_.state(its) == Paused::running && !pauses_.is_busy(its) &&
               (tried == tried_.end() || tried->second + idle_ <= now);
    });
    if (!slot) return;
    next_ = now + between_two;
    tried_[*slot] = now;
    if (const Failure e = pauses_.park(*clients_[*slot]))
        log::debug("cards: channel {} stays on the card: {}", *slot, e.text());
}

}  // namespace barcuda
