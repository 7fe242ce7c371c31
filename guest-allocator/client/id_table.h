// id_table.h: what the guest remembers about an object, found by its id in two loads, without a lock. Entries are made
// at first use, zero-filled, in chunks that are never moved or freed.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "shm-device/wire.h"

namespace barcuda {

template <class Entry> class IdTable {
    static constexpr std::uint64_t chunk = 1024, chunks = wire::most_ids / chunk;

  public:
    // Null: there is no memory, or no such id can be. Ids that the host gave and ids that the guest chose are
    // different tables' business: an object type is always named by the same side.
    Entry* at(std::uint64_t id) noexcept {
        id &= wire::given - 1;
        if (id >= chunk * chunks) return nullptr;
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

}  // namespace barcuda
