// SPDX-License-Identifier: Apache-2.0
// shared.h: what the clients of one region share with each other: by handles (cuIpc*, pointers of pools), or by
// descriptors (cuMem*ShareableHandle). The driver's handles name a process of the host, and its descriptors are files
// of the host. So guests never see either, and cannot pass in one that they made. They get a token of 128 random bits
// instead, which leads back to the driver's handle in this region only. A descriptor keeps its memory alive, as it does
// natively: until its client withdraws it or ends.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>

#include "base/message.h"

namespace barcuda {

class Shared {
  public:
    using Handle = std::array<char, 64>;  // CU_IPC_HANDLE_SIZE, and the size of CUmemPoolPtrExportData
    enum class Kind : std::uint64_t { memory, event, pointer, allocation, pool };
    struct Thing {
        std::uint32_t channel;  // of the owner
        Kind kind;
        Handle handle;  // the driver's
        File file;      // or its descriptor
    };

    // `files`: how many descriptors one client may have.
    explicit Shared(std::size_t files = 64) : most_files_(files) {}
    // Gives a token to something that this channel's client owns. The same handle gets the same token; each descriptor
    // gets its own. False: the client has too many.
    bool offer(std::uint32_t channel, Kind kind, Handle& handle, File file = {});
    // What a token stands for. Null: nothing of that kind.
    const Thing* find(Kind kind, const Handle& token) const;
    // The same, for a client that opens it: the two clients share something until one of them ends.
    const Thing* open(std::uint32_t channel, Kind kind, const Handle& token);
    // Another client that shares something with this one. This client's own channel: it may share something at any
    // moment. -1: none.
    std::int64_t shares_with(std::uint32_t channel) const;
    void withdraw(std::uint32_t channel, const Handle& token);  // one thing of its client's
    void forget(std::uint32_t channel);                         // everything of its client's
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
    std::set<std::pair<std::uint32_t, std::uint32_t>> opened_;  // by which channel, of which channel
};

}  // namespace barcuda
