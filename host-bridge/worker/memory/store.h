// SPDX-License-Identifier: Apache-2.0
// store.h: puts the memory of blocks aside in the host's memory, piece by piece, and brings it back to the same
// addresses. It moves what it is told to: which client's memory leaves, and when, is decided elsewhere.
//
// The GPU must be idle, and stay idle while memory of a client that may run is out. A call that fails loses nothing: a
// piece is either on the GPU or here.
//
// Not thread-safe.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/memory/holes.h"

namespace barcuda {

// Copies that are done after finish(), in any order.
struct Copies {
    virtual ~Copies() = default;
    virtual CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) = 0;
    virtual CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) = 0;
    virtual CUresult finish() = 0;
};

// By the driver, in a stream of the current context. The host's memory is registered.
class DriverCopies : public Copies {
  public:
    explicit DriverCopies(const Driver& driver) : driver_(driver) {}
    ~DriverCopies() override;
    CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) override;
    CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) override;
    CUresult finish() override;

  private:
    CUresult begin();
    const Driver& driver_;
    CUstream stream_ = nullptr;
};

class Store {
  public:
    Store(Blocks& blocks, Copies& copies, std::byte* room, std::uint64_t bytes)
        : blocks_(blocks), copies_(copies), room_(room), holes_(0, bytes) {}

    // Moves pieces of the block to the host, the last one first, until `wanted` bytes or more have left, or all that
    // may leave and that there is room for. `moved`: how many bytes.
    CUresult put_out(std::uint64_t block, std::uint64_t wanted, std::uint64_t& moved);
    // Moves all that is out back. When the GPU has no room for all of it, some of it may be back.
    CUresult bring_back(std::uint64_t block);
    void forget(std::uint64_t block);  // before it ends
    std::uint64_t held() const { return held_; }
    std::uint64_t held(std::uint64_t block) const;

  private:
    using Place = std::pair<std::uint64_t, std::size_t>;  // a block's address, and which of its pieces
    struct Held {
        std::uint64_t offset, bytes;  // in the room
    };
    void give_up(std::map<Place, Held>::iterator its);

    Blocks& blocks_;
    Copies& copies_;
    std::byte* const room_;
    Holes holes_;
    std::map<Place, Held> pieces_;
    std::uint64_t held_ = 0;
};

}  // namespace barcuda
