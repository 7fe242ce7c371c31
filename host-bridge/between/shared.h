// SPDX-License-Identifier: Apache-2.0
// shared.h: what clients of one region show each other: by handles (cuIpc*, pointers of pools), or by descriptors
// (cuMem*ShareableHandle). The driver's handles say which process of the host to turn to, its descriptors are files of the
// host: guests never see either, nor could they hand in one of their own making. They get a token, 128 random bits, and only
// in this region does it lead back to the driver's. A descriptor keeps its memory alive, here as natively: it is held until its
// client withdraws it, or ends.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>

#include "base/message.h"

namespace barcuda {

class Shared {
  public:
    using Handle = std::array<char, 64>;  // CU_IPC_HANDLE_SIZE, and that of CUmemPoolPtrExportData
    enum class Kind : std::uint64_t { memory, event, pointer, allocation, pool };
    struct Thing {
        std::uint32_t channel;  // whose it is
        Kind kind;
        Handle handle;  // the driver's
        File file;      // or its descriptor
    };

    // `files`: how many descriptors one client may have.
    explicit Shared(std::size_t files = 64) : most_files_(files) {}
    // The token of a thing that this channel's client has: the same for the same handle; each descriptor has its own. False:
    // it has too many.
    bool offer(std::uint32_t channel, Kind kind, Handle& handle, File file = {});
    // What is behind a token. Null: nothing of that kind.
    const Thing* find(Kind kind, const Handle& token) const;
    // The same, for a client that opens it: the two share something from now on, until one of them is gone.
    const Thing* open(std::uint32_t channel, Kind kind, const Handle& token);
    // Another client with which this one shares something, or may at any moment: then its own channel. None: -1.
    std::int64_t shares_with(std::uint32_t channel) const;
    void withdraw(std::uint32_t channel, const Handle& token);  // one of its client's
    void forget(std::uint32_t channel);                         // all of its client's
    std::size_t size() const { return things_.size(); }

    static constexpr std::size_t most = 1 << 14;  // handles of one client

  private:
    struct Client {
        std::map<std::pair<Kind, Handle>, Handle> tokens;  // by handle
        std::set<Handle> files;                            // by token
    };
    const std::size_t most_files_;
    std::map<Handle, Thing> things_;                            // by token
    std::map<std::uint32_t, Client> clients_;                   // by channel
    std::set<std::pair<std::uint32_t, std::uint32_t>> opened_;  // by whom, whose
};

}  // namespace barcuda
