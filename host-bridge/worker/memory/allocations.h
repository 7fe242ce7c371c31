// SPDX-License-Identifier: Apache-2.0
// allocations.h: what the client has allocated: each allocation is a block of its own, or a part of a slab, or a block
// of another process's pieces. It belongs to a context, and ends with it. (Which calls allocate: layer.cc.)
//
// Not thread-safe: the layer has a lock.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/memory/slabs.h"

namespace barcuda {

struct Allocation {
    using Owner = std::uint64_t;  // a context
    enum class Kind : std::uint8_t { block, slab, opened };
    Owner owner = 0;
    int device = 0;
    Kind kind = Kind::block;
    bool leaving = false;      // the client has freed it, in the order of a stream that has not come so far
    bool sync_memops = true;   // as a driver has it of its own
    std::uint64_t bytes = 0;   // as requested
    std::uint64_t block = 0;   // its address
    std::uint64_t number = 0;  // of all allocations of this process
};

class Allocations {
  public:
    using Owner = Allocation::Owner;
    using Kind = Allocation::Kind;
    explicit Allocations(Pieces& pieces) : blocks_(pieces) {}

    // `wish`: where; 0: anywhere.
    CUresult allocate(Owner owner, int device, std::uint64_t bytes, std::uint64_t& address, std::uint64_t wish = 0);
    // Memory of another process: `bytes` of these pieces, from `offset` on. A failure releases the pieces.
    CUresult adopt(Owner owner, int device, std::vector<Block::Piece> pieces, const Pieces::Devices& devices,
                   std::uint64_t offset, std::uint64_t bytes, std::uint64_t& address);
    // Its first address. The GPU must have done all work that uses the memory.
    void free(std::uint64_t address);
    void owner_gone(Owner owner);  // with the same condition
    bool shrink();                 // gives up what is kept for later allocations

    struct Found {
        std::uint64_t address = 0;
        Allocation* allocation = nullptr;  // null: the client has nothing there
        explicit operator bool() const { return allocation; }
    };
    Found find(std::uint64_t address);         // the allocation that contains this address
    Found starting_at(std::uint64_t address);  // or begins with it
    const Allocation& at(std::uint64_t address) const { return all_.at(address); }  // also one that is leaving
    const Block& block_of(const Allocation& allocation) const { return blocks_.at(allocation.block); }
    bool may_have(std::uint64_t address, std::uint64_t bytes) const { return blocks_.meet(address, bytes); }

    // Another device may use the memory of this owner, now and later, as often as that was allowed.
    CUresult allow(Owner owner, int device, int other);
    void forbid(Owner owner, int other);

    // A context that has memory on this device, or had; 0: there is none.
    Owner owner_on(int device) const;

    Blocks& blocks() { return blocks_; }
    bool empty() const { return all_.empty() && blocks_.empty(); }
    std::uint64_t bytes() const { return blocks_.bytes(); }  // of physical memory

  private:
    struct Home {
        Home(Blocks& blocks, int device) : device(device), slabs(blocks, device) {}
        Pieces::Devices devices() const;
        const int device;
        Slabs slabs;
        std::multiset<int> others;
    };
    Home& home(Owner owner, int device) { return homes_.try_emplace(owner, blocks_, device).first->second; }
    CUresult open_all(Owner owner, const Home& home);
    void end(std::uint64_t address, const Allocation& allocation);

    Blocks blocks_;
    std::map<Owner, Home> homes_;
    std::map<std::uint64_t, Allocation> all_;  // by address
    std::uint64_t numbers_ = 0;
};

}  // namespace barcuda
