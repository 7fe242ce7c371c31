// SPDX-License-Identifier: Apache-2.0
// blocks.h: device memory that this worker makes by itself, in place of the driver's cuMemAlloc: a block is a run of
// addresses with pieces of physical memory behind them. So a block may lose its memory and get other memory at the same
// address (store.h), and its address depends only on what was allocated and freed before.
//
// Addresses come from spans, which are reserved once and kept. A block takes the lowest addresses that are free (first
// fit). Its pieces have 64 MiB, except the last: on an H100, kernels use pieces of 2 MiB to 64 MiB as fast as the
// driver's own memory, one piece of 16 GiB is slower, and small pieces take long to create.
//
// Not thread-safe: the layer has a lock.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "host-bridge/worker/memory/holes.h"
#include "host-bridge/worker/memory/pieces.h"

namespace barcuda {

constexpr std::uint64_t block_granule = 2 << 20;  // of physical memory and of its addresses
constexpr std::uint64_t most_of_a_piece = 64 << 20;

// Addresses of blocks.
class Spans {
  public:
    // Between what the driver maps by itself (from BARCUDA_DEVICE_MAPPED on; the software GPU also at 0x3000...) and
    // the window of managed memory (guest-allocator/driver/managed/state/range.h). No guest has anything there
    // (layout.h).
    static constexpr std::uint64_t begin = 0x310000000000, end = 0x400000000000;
    static constexpr std::uint64_t unit = std::uint64_t{64} << 30;  // a span is a multiple of this

    explicit Spans(Pieces& pieces) : pieces_(pieces) {}

    std::optional<std::uint64_t> take(std::uint64_t bytes);  // a multiple of the granule. None: there are no more
    // These, which were taken in another process. False: they are not free.
    bool take_at(std::uint64_t address, std::uint64_t bytes);
    void give(std::uint64_t address, std::uint64_t bytes);
    bool meet(std::uint64_t address, std::uint64_t bytes) const;  // some of these addresses are in a span
    bool all_free() const;

  private:
    struct Span {
        std::uint64_t bytes = 0;
        Holes holes;
    };
    Pieces& pieces_;
    std::map<std::uint64_t, Span> spans_;  // by address. Holes of two spans are not merged: a mapping is in one span
    std::uint64_t next_ = begin;
};

struct Block {
    struct Piece {
        Pieces::Handle handle;
        std::uint64_t bytes;
        bool is_out = false;  // its memory is not on the GPU (store.h), and the handle has no meaning
    };
    int device = 0;
    std::uint64_t bytes = 0;
    std::vector<Piece> pieces;  // in the order of their addresses
    Pieces::Devices devices;    // that may use it
    bool adopted = false;       // the pieces are another process's
};

class Blocks {
  public:
    explicit Blocks(Pieces& pieces) : pieces_(pieces), spans_(pieces) {}

    // At least `bytes`. A failure leaves nothing behind. `wish`: where; 0: anywhere.
    CUresult make(int device, std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address,
                  std::uint64_t wish = 0);
    // The same of pieces that another process has made. They are this block's from now on; a failure releases them.
    CUresult adopt(int device, std::vector<Block::Piece> pieces, const Pieces::Devices& devices,
                   std::uint64_t& address);
    void end(std::uint64_t address);
    CUresult open(std::uint64_t address, const Pieces::Devices& devices);

    // Ends the memory of one piece of a block, whose addresses stay; and gives these addresses other memory, whose
    // contents are undefined. The same condition as for end().
    bool may_leave(const Block& block, std::size_t piece) const;
    void leave(std::uint64_t address, std::size_t piece);
    CUresult come_back(std::uint64_t address, std::size_t piece);

    // f(address) is called before a block ends.
    void before_end(std::function<void(std::uint64_t)> f) { before_end_ = std::move(f); }
    template <class F> void each(const F& f) const {
        for (const auto& [address, block] : blocks_) f(address, block);
    }
    const Block& at(std::uint64_t address) const { return blocks_.at(address); }
    bool contain(std::uint64_t address) const { return blocks_.contains(address); }
    bool meet(std::uint64_t address, std::uint64_t bytes) const { return spans_.meet(address, bytes); }
    bool empty() const { return blocks_.empty() && spans_.all_free(); }
    std::uint64_t bytes() const { return bytes_; }  // of all blocks, on the GPU

  private:
    CUresult place(Block block, std::uint64_t& address, std::uint64_t wish = 0);
    void release(const Block& block);

    Pieces& pieces_;
    Spans spans_;
    std::map<std::uint64_t, Block> blocks_;
    std::uint64_t bytes_ = 0;
    std::function<void(std::uint64_t)> before_end_;
};

}  // namespace barcuda
