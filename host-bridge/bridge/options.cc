// SPDX-License-Identifier: Apache-2.0
#include "host-bridge/bridge/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "host-bridge/bridge/rooms.h"

namespace barcuda {

Failure settle_cards(BridgeOptions& options) {
    if (options.cards == "off") options.cards.clear();
    if (options.cards.empty()) {
        if (options.store || options.store_ready)
            return "--store and --store-ready are for shared cards: give --cards on, too";
        if (options.context_idle) return "--context-idle is for shared cards: give --cards on, too";
        return {};
    }
    if (options.device_memory != "blocks")
        return "--cards needs --device-memory blocks: only memory that workers map themselves can leave a card";
    if (options.store && options.store < Rooms::granule)
        return fmt::format("--store {}: it is at least {} MiB", options.store, Rooms::granule >> 20);
    if (options.store_ready > options.store)
        return "--store-ready is a part of --store: give a larger --store, or less of --store-ready";
    if (options.store_ready && options.store_ready < Rooms::most_bytes)
        return fmt::format("--store-ready {}: it is at least {} MiB", options.store_ready, Rooms::most_bytes >> 20);
    return {};
}

}  // namespace barcuda
