// SPDX-License-Identifier: Apache-2.0
// heap_desk.h: which parts of the region's heap a client gets, and when. Memory that another client has used is emptied
// first, for which each turn of the loop has some time only; memory that the file system has no room for is not
// granted. (grants.h has the table of owners.)
#pragma once
#include <chrono>
#include <cstdint>

#include "host-bridge/bridge/clients.h"
#include "host-bridge/bridge/grants.h"
#include "host-bridge/bridge/limits_desk.h"
#include "host-bridge/bridge/pool.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class HeapDesk {
  public:
    using Clock = std::chrono::steady_clock;
    HeapDesk(const HostRegion& region, Grants& grants, const Clients& clients, const LimitsDesk& limits, Pool& pool);

    // A turn of the loop begins: from now on there is some time for emptying memory. Answers clients that have asked
    // before.
    void begin_turn(Clock::time_point now = Clock::now());
    // This turn ended with memory still to be emptied: the next one is due at once.
    bool short_of_time() const { return short_of_time_; }
    // Empties what clients have left, while nothing else is to be done.
    void release_pages();

    // A client wants memory: it is answered now, or in a later turn.
    void ask(Client& client, std::uint64_t bytes);
    // For a client that is to come: memory that its worker prepares. It is taken only where there is plenty. None:
    // bytes 0.
    Grants::Run reserve(std::uint64_t bytes);
    // What its worker has reserved is its client's, and mapped already.
    void hand_over(Client& client);

  private:
    void answer(Client& client);
    Grants::Run grant(std::uint32_t channel, std::uint64_t bytes);
    bool has_time();
    bool has_room(std::uint64_t bytes) const;

    const HostRegion& region_;
    Grants& grants_;
    const Clients& clients_;
    const LimitsDesk& limits_;
    Pool& pool_;
    const bool has_pages_;        // the region is a file: a device has no pages to release
    std::uint32_t next_ = 0;      // the slot whose client has been granted nothing for longest
    bool short_of_time_ = false;  // there is more to empty than this turn has time for, which is until then:
    Clock::time_point time_ends_ = Clock::time_point::max();
};

// Makes a part of the region read as zeros: nothing of one client reaches the next.
void clear(const HostRegion& region, std::uint64_t offset, std::uint64_t bytes);

}  // namespace barcuda
