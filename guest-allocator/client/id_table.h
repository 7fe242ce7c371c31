// SPDX-License-Identifier: Apache-2.0
// id_table.h: what the guest remembers about an object, found by its id in two loads, without a lock. Entries are made
// at first use, zero-filled, in chunks that are never moved or freed.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "shm-device/queue/wire.h"

namespace barcuda::guest {

template <class Entry> class IdTable {
    static constexpr std::uint64_t chunk = 1024, chunks = 2 * wire::most_ids / chunk;

  public:
    // Null: there is no memory, or no such id can be. Contexts are named by either side: ids that the host gave have
    // the upper half of the table.
    Entry* at(std::uint64_t id) noexcept {
        const bool its_own = !(id & wire::given);
        id &= wire::given - 1;
        if (id >= wire::most_ids) return nullptr;
        if (!its_own) id += wire::most_ids;
        std::atomic<Entry*>& place = chunks_[id / chunk];
        Entry* c = place.load(std::memory_order_acquire);
        if (!c) {
            auto* fresh = static_cast<Entry*>(std::calloc(chunk, sizeof(Entry)));
            if (!fresh) return nullptr;
            if (place.compare_exchange_strong(c, fresh, std::memory_order_acq_rel)) c = fresh;
            else std::free(fresh);
        }
        return &c[id % chunk];
    }
    template <class Handle> Entry* of(Handle handle) noexcept { return at(reinterpret_cast<std::uint64_t>(handle)); }

  private:
    std::atomic<Entry*> chunks_[chunks] = {};
};

}  // namespace barcuda::guest
