// SPDX-License-Identifier: Apache-2.0
// bell.h: how a worker is kicked by its client, and wakes it. What the client says of itself (that it will kick, that
// it sleeps) is read once each time, and believed only as far as it costs this worker time alone. (The other end, and
// the table of ways: guest-allocator/client/bell.h.)
#pragma once
#include <cstdint>

#include "shm-device/queue/virtqueue.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Bell {
  public:
    Bell() = default;
    // `doorbell`: an eventfd that interrupts the guest; -1: its bridge serves none.
    Bell(const Channel& channel, int doorbell);

    // ---- the worker's sleep
    std::uint32_t kicks() const;  // to be read before the client is asked to kick
    // Until a kick, or for `nanoseconds`; less where the client cannot kick. False: the time was over.
    bool sleep(std::uint32_t seen, std::uint64_t nanoseconds) const;
    void deaf() { deaf_ = true; }  // its kicks do not come: never wait for one again

    // ---- the client's
    // Wakes all of the client's threads that sleep, if any does. From any thread.
    void wake() const;
    // Whether the client can wake this process out of a sleep on a word of the channel.
    bool kicked() const;
    // For the bridge: the guest rang; the worker may be meant.
    void relay() const;

  private:
    std::uint32_t& word(std::uint64_t offset) const {
        return *reinterpret_cast<std::uint32_t*>(channel_.memory + offset);
    }

    Channel channel_;
    int doorbell_ = -1;
    bool deaf_ = false;
    bool fences_ = false;  // this kernel can fence for both sides
};

}  // namespace barcuda
