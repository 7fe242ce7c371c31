// SPDX-License-Identifier: Apache-2.0
// bell.h: how this process wakes its worker, and is woken. A worker that has had nothing to do for a while sleeps, and
// so do threads of ours that wait long; both say so first (the queue's event words, virtqueue.h). (The other end:
// host-bridge/between/bell.h.)
//
// Which of these it is, is a property of the region's door (shm-device/doors/door.h):
//
//   where         we wake the worker                        it wakes us
//   flat          a futex on the channel's kicks word       a futex on its wakes word
//   VM, doorbell  ivshmem's doorbell, through the module;   an interrupt, of which read() of the module's device tells;
//                 the bridge hears it and wakes the worker  the thread that hears it wakes the others
//   elsewhere     it looks by itself                        we look by ourselves
#pragma once
#include <cstdint>

#include "shm-device/doors/door.h"

namespace barcuda::guest {

class Bell {
  public:
    // Has the door find out which of the three it is, and tell the host.
    void open(Door& door, const Channel& channel) noexcept;

    // The worker's fence, made when it goes to sleep, orders what we post before what we read: on one kernel.
    bool fenced() const noexcept { return door_->is_fenced(); }
    void kick() noexcept;
    // Wakes the worker's thread that answers requests for extents (host-bridge/worker/supply.h).
    void kick_supply() noexcept;

    // For a thread that waits: what to read before it says that it will sleep, and the sleep.
    std::uint32_t seen() const noexcept;
    void sleep(std::uint32_t seen, std::uint64_t nanoseconds) noexcept;

  private:
    std::uint32_t& word(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<std::uint32_t*>(channel_.memory + offset);
    }

    Door* door_ = nullptr;
    Channel channel_;
};

}  // namespace barcuda::guest
