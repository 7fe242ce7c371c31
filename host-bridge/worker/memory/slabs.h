// SPDX-License-Identifier: Apache-2.0
// slabs.h: small allocations of one context. A slab is a block of 2 MiB that holds many of them. An allocation gets the
// lowest address that is free. One slab without allocations is kept for the next allocation; others end.
#pragma once
#include <cstdint>
#include <iterator>
#include <map>

#include "host-bridge/worker/memory/blocks.h"

namespace barcuda {

class Slabs {
  public:
    static constexpr std::uint64_t below = 1 << 20;  // larger allocations have blocks of their own
    // NVIDIA's driver begins allocations at multiples of 512, although CUDA promises only 256.
    static constexpr std::uint64_t unit = 512;

    explicit Slabs(Blocks& blocks, int device) : blocks_(blocks), device_(device) {}

    // `wish`: where; 0: anywhere.
    CUresult allocate(std::uint64_t bytes, const Pieces::Devices& devices, std::uint64_t& address,
                      std::uint64_t wish = 0);
    void free(std::uint64_t address);
    bool shrink();  // ends the empty slab that is kept. False: there is none
    // For each slab f(its address): it is the address of a block.
    template <class F> void each(const F& f) const {
        for (const auto& [start, slab] : slabs_) f(start);
    }
    std::uint64_t slab_of(std::uint64_t address) const { return std::prev(slabs_.upper_bound(address))->first; }
    void end();  // of the context: all slabs end

  private:
    struct Slab {
        Holes holes{0, block_granule};
        std::map<std::uint64_t, std::uint64_t> used;  // offset -> bytes
        std::uint64_t room = block_granule;           // no hole is larger
        bool take(std::uint64_t bytes, std::uint64_t& offset);
        bool take_at(std::uint64_t offset, std::uint64_t bytes);
        void give(std::uint64_t offset);
    };
    CUresult allocate_at(std::uint64_t address, std::uint64_t bytes, const Pieces::Devices& devices);

    Blocks& blocks_;
    const int device_;
    std::map<std::uint64_t, Slab> slabs_;  // by address
};

}  // namespace barcuda
