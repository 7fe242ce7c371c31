// patience.h: how the guest waits for its host: shm-device/wait.h's way, at this machine's pace, and with a look now
// and then whether there is still somebody to wait for.
#pragma once
#include "shm-device/wait.h"

namespace barcuda {

class Client;

class Patience {
  public:
    void wait(Client& client) noexcept {
        waiter_.turn();
        if (waiter_.should_ask()) look_for_host(client);
    }

  private:
    static const Pace& pace() noexcept;           // client.cc
    void look_for_host(Client& client) noexcept;  // client.cc: ends the session if the bridge's heart has stopped

    Waiter<> waiter_{pace()};
    std::uint64_t heartbeat_ = 0;
    unsigned silent_ = 0;  // looks in a row that found the same heartbeat
};

}  // namespace barcuda
