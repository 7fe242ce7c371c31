// SPDX-License-Identifier: Apache-2.0
// doorbell.h: ivshmem's interrupts. QEMU's `ivshmem-doorbell` device gets its memory and its interrupts from a server
// on a socket (QEMU's docs/specs/ivshmem-spec); for one guest, this is that server. A guest that writes its doorbell
// register writes our eventfd; a write to the guest's eventfd interrupts the guest.
//
// The protocol is a stream of 64-bit numbers, some with a descriptor: version 0; the guest's id; -1 and the memory;
// then for each peer its id and one eventfd a vector. The host is peer 0 and has one vector, as the guest has.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/bridge/kept.h"
#include "host-bridge/bridge/visitor.h"

namespace barcuda {

class Doorbell {
  public:
    Doorbell() = default;
    ~Doorbell();
    Doorbell(const Doorbell&) = delete;
    Doorbell& operator=(const Doorbell&) = delete;

    // Listens at this path for the QEMU that will map `region`.
    Failure open(const std::string& path, int region, const Kept& kept);
    // Goes on with the doorbell of an earlier bridge, and with the QEMU that is there. False: there was none.
    bool adopt(const std::string& path, int region, const Kept& kept);
    explicit operator bool() const { return static_cast<bool>(listener_); }

    bool connected() const { return static_cast<bool>(qemu_); }
    int guest() const { return guest_.fd(); }  // -1, or an eventfd that interrupts the guest

    // Readable: there is something to answer. -1: no doorbell is open.
    int fd() const { return any_.fd(); }
    // Answers it. `is_worker`: whether the peer is not QEMU but a worker. True: the guest has rung.
    bool answer(const std::function<bool(const Visitor&)>& is_worker);

  private:
    void greet(const std::function<bool(const Visitor&)>& is_worker);
    bool hear(const File& file);

    std::string path_;
    int region_ = -1;
    const Kept* kept_ = nullptr;
    File any_;  // an epoll descriptor of the first three below
    File listener_, qemu_, host_, guest_;
};

}  // namespace barcuda
