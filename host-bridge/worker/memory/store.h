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
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/memory/holes.h"

namespace barcuda {

// Copies, in batches: they are done in any order within a batch.
struct Copies {
    virtual ~Copies() = default;
    virtual CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) = 0;
    virtual CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) = 0;
    virtual CUresult end_batch() = 0;  // waits for the batch before this one
    virtual CUresult finish() = 0;     // waits for all
};

// By the driver, in a stream of the context that is current at the first copy. finish() ends the stream: the context
// may end before the next copy. The host's memory is registered.
class DriverCopies : public Copies {
  public:
    explicit DriverCopies(const Driver& driver) : driver_(driver) {}
    ~DriverCopies() override { end(); }
    CUresult to_host(std::byte* host, std::uint64_t device, std::uint64_t bytes) override;
    CUresult to_device(std::uint64_t device, const std::byte* host, std::uint64_t bytes) override;
    CUresult end_batch() override;
    CUresult finish() override;

  private:
    CUresult begin();
    void end();
    const Driver& driver_;
    CUstream stream_ = nullptr;
    CUevent ends_[2] = {};  // of this batch and the one before
    unsigned batches_ = 0;
};

class Store {
  public:
    Store(Blocks& blocks, Copies& copies) : blocks_(blocks), copies_(copies) {}

    // ---- its room: registered memory of the host, in parts
    using Number = std::uint64_t;
    void add_room(Number number, std::byte* at, std::uint64_t bytes) {
        rooms_.push_back({number, at, bytes, bytes, {0, bytes}});
    }
    // f(bytes) is called when some are lacking; true: there is more room now. Copies go on meanwhile.
    void grow_by(std::function<bool(std::uint64_t)> f) { grow_ = std::move(f); }
    struct Part {
        Number number;
        std::byte* at;
        std::uint64_t bytes;
    };
    // A part that nothing is in. It is no longer room of this store.
    std::optional<Part> take_empty_room();
    std::uint64_t free() const;  // in all parts, not in one piece
    // The size of the next part to ask for. `lacking`: bytes that have no room; `has`: bytes of all parts. A client may
    // have few parts (bridge/rooms.h), and orders may be small: so a part is at least a sixteenth of `has`.
    static std::uint64_t next_part(std::uint64_t lacking, std::uint64_t has);

    // ---- moves
    // Moves pieces of these blocks to the host, of each block the last one first, until `wanted` bytes or a little more
    // have left, or all that may leave and that there is room for. `moved`: how many bytes, also after a failure.
    CUresult put_out(std::span<const std::uint64_t> blocks, std::uint64_t wanted, std::uint64_t& moved);
    // Moves all that is out of these blocks back. When the GPU has no room for all of it, some of it may be back.
    CUresult bring_back(std::span<const std::uint64_t> blocks);
    void forget(std::uint64_t block);  // before it ends
    std::uint64_t held() const { return held_; }
    std::uint64_t held(std::uint64_t block) const;
    // The contents of a piece that is out; null: it is not.
    const std::byte* contents(std::uint64_t block, std::size_t piece);

  private:
    using Place = std::pair<std::uint64_t, std::size_t>;  // a block's address, and which of its pieces
    struct Room {
        Number number;
        std::byte* at;
        std::uint64_t bytes, free;
        Holes holes;
    };
    struct Held {
        Number room;
        std::uint64_t offset, bytes;
    };
    using Pieces = std::map<Place, Held>;
    std::byte* take(const Place& place, std::uint64_t bytes);
    Room& room_of(const Held& held);
    void give_up(Pieces::iterator its);

    Blocks& blocks_;
    Copies& copies_;
    std::function<bool(std::uint64_t)> grow_;
    std::vector<Room> rooms_;
    Pieces pieces_;
    std::uint64_t held_ = 0;
};

}  // namespace barcuda
