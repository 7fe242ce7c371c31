// SPDX-License-Identifier: Apache-2.0
// shared.h: what clients of one region show each other (cuIpc*). The driver's handles say which process of the host to
// turn to: guests never see them, nor could they hand in one of their own making. They get a token, 128 random bits,
// and only in this region does it lead back to the handle.
#pragma once
#include <array>
#include <cstdint>
#include <map>

namespace barcuda {

class Shared {
  public:
    using Handle = std::array<char, 64>;  // CU_IPC_HANDLE_SIZE
    enum class Kind : std::uint64_t { memory, event };

    // The token of a driver's handle that this channel's client has: the same for the same. False: it has too many.
    bool offer(std::uint32_t channel, Kind kind, Handle& handle);
    // The driver's handle of a token. False: there is none of that kind.
    bool find(Kind kind, Handle& handle) const;
    void forget(std::uint32_t channel);  // all of its client's
    std::size_t size() const { return handles_.size(); }

    static constexpr std::size_t most = 1 << 14;  // of one client

  private:
    using Thing = std::pair<Kind, Handle>;
    std::map<Handle, Thing> handles_;                          // by token
    std::map<std::uint32_t, std::map<Thing, Handle>> tokens_;  // by channel, and by handle
};

}  // namespace barcuda
