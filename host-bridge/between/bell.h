// SPDX-License-Identifier: Apache-2.0
// bell.h: how a client kicks its worker, and how the worker wakes its client. The worker reads what the client says of
// itself (that it will kick, that it sleeps) once each time. A false statement costs this worker time and nothing else.
// The client's end, and the table of ways: guest-allocator/client/bell.h.
#pragma once
#include <cstdint>

#include "shm-device/queue/virtqueue.h"
#include "shm-device/region/host_region.h"

namespace barcuda {

class Bell {
  public:
    Bell() = default;
    // `doorbell`: an eventfd that interrupts the guest; -1: the bridge has none.
    Bell(const Channel& channel, int doorbell);

    // ---- the worker's sleep
    std::uint32_t kicks() const;  // read this before the client is asked to kick
    // Sleeps until a kick, for at most `nanoseconds`, or for less if the client cannot kick. False: the time is over.
    bool sleep(std::uint32_t seen, std::uint64_t nanoseconds) const;
    void deaf() { deaf_ = true; }  // kicks do not arrive: never wait for one again

    // ---- the client's sleep
    // Wakes all threads of the client that sleep. Any thread may call it.
    void wake() const;
    // Whether a thread of the client has announced that it sleeps. Unordered: a caller looks again later.
    bool is_awaited() const;
    // Whether the client can wake this process when it sleeps on a word of the channel.
    bool kicked() const;
    // For the bridge: the guest rang, perhaps for the worker.
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
