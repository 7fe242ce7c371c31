// patience.h: how the guest waits for its host: it looks, then yields, then naps, longer and longer, and every now and
// then makes sure that there is still somebody to wait for.
#pragma once
#include <time.h>

#include <cstdint>
#include <thread>

namespace barcuda {

class Client;

class Patience {
  public:
    void wait(Client& client) noexcept {
        ++turns_;
        if (turns_ < 1000) return __builtin_ia32_pause();
        if (turns_ < 1500) return std::this_thread::yield();
        const timespec nap{0, turns_ < 1700 ? 10'000 : turns_ < 3000 ? 50'000 : 500'000};
        nanosleep(&nap, nullptr);
        if (turns_ % 512 == 0) look_for_host(client);
    }

  private:
    void look_for_host(Client& client) noexcept;  // client.cc: ends the session if the bridge's heart has stopped

    std::uint32_t turns_ = 0;
    std::uint64_t heartbeat_ = 0;
    unsigned silent_ = 0;  // looks in a row that found the same heartbeat
};

}  // namespace barcuda
