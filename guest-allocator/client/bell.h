// SPDX-License-Identifier: Apache-2.0
// bell.h: how this process wakes its worker, and is woken. A worker that has had nothing to do for a while sleeps, and
// so do threads of ours that wait long; both say so first (the queue's event words, virtqueue.h). (The other end:
// host-bridge/between/bell.h.)
//
//   where         we wake the worker                        it wakes us
//   flat          a futex on the channel's kicks word       a futex on its wakes word
//   VM, doorbell  ivshmem's doorbell, through the module;   an interrupt, of which read() of the module's device tells;
//                 the bridge hears it and wakes the worker  the thread that hears it wakes the others
//   elsewhere     it looks by itself                        we look by ourselves
#pragma once
#include <atomic>
#include <cstdint>

#include "guest-allocator/client/mutex.h"
#include "shm-device/region/region.h"

namespace barcuda::guest {

class Bell {
  public:
    // Finds out which of the three it is, and tells the host.
    void open(const Region& region, const Channel& channel) noexcept;

    // The worker's fence, made when it goes to sleep, orders what we post before what we read: on one kernel.
    bool fenced() const noexcept { return kind_ == BARCUDA_BELL_FUTEX; }
    void kick() noexcept;
    void
    kick_supply() noexcept;  // wakes the worker's thread that answers requests for extents (host-bridge/worker/supply.h)

    // For a thread that waits: what to read before it says that it will sleep, and the sleep.
    std::uint32_t seen() const noexcept;
    void sleep(std::uint32_t seen, std::uint64_t nanoseconds) noexcept;

  private:
    std::uint32_t& word(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<std::uint32_t*>(channel_.memory + offset);
    }

    const Region* region_ = nullptr;
    Channel channel_;
    barcuda_bell kind_ = BARCUDA_BELL_NONE;
    Mutex listening_;                      // held by the thread that waits for the interrupt
    std::atomic<std::uint32_t> heard_{0};  // interrupts: what the other threads sleep on
};

}  // namespace barcuda::guest
