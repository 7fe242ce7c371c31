// SPDX-License-Identifier: Apache-2.0
// heap_desk.h: which parts of the region's heap a client gets, and when. Memory that another client has used is emptied
// first; each turn of the loop has limited time for that. Memory without room in the file system is not granted.
// (grants.h has the table of owners.)
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

    // Begins a turn of the loop, which has some time for emptying memory. Answers clients that have asked before.
    void begin_turn(Clock::time_point now = Clock::now());
    // The turn ended with memory left to empty: the next one is due at once.
    bool short_of_time() const { return short_of_time_; }
    // Empties what clients have left, while the bridge is idle.
    void release_pages();

    // A client requests memory: it gets an answer now, or in a later turn.
    void ask(Client& client, std::uint64_t bytes);
    // Memory that a waiting worker prepares for a later client. It is reserved only if there is plenty. None: bytes 0.
    Grants::Run reserve(std::uint64_t bytes);
    // Gives what its worker has reserved, and has mapped already, to the client. False: some of it is not to be given.
    bool hand_over(Client& client);

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
    const bool has_pages_;    // the region is a file: a device has no pages to release
    std::uint32_t next_ = 0;  // the slot whose client has waited longest since its last grant
    // more memory must be emptied than this turn has time for; the turn's time ends here:
    bool short_of_time_ = false;
    Clock::time_point time_ends_ = Clock::time_point::max();
};

// Makes a part of the region read as zeros: nothing of one client reaches the next.
void clear(const HostRegion& region, std::uint64_t offset, std::uint64_t bytes);

}  // namespace barcuda
