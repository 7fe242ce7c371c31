// SPDX-License-Identifier: Apache-2.0
// moves.h: how blocks of a client that shares cards leave for the store and come back, as Residence (residence.h) says:
// which blocks, in which context, and where in the host's memory. The store's room is files of the bridge
// (bridge/rooms.h), which are mapped and registered once.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/memory/allocations.h"
#include "host-bridge/worker/memory/promised_pieces.h"
#include "host-bridge/worker/memory/residence.h"
#include "host-bridge/worker/memory/store.h"

namespace barcuda {

struct GpuWork;
struct Granter;

// f() with that context as the current one.
template <class F> CUresult within(const Driver& driver, CUcontext context, const F& f) {
    CUcontext before = nullptr;
    driver.cuCtxGetCurrent(&before);
    if (before != context)
        if (CUresult r = driver.cuCtxSetCurrent(context); r != CUDA_SUCCESS) return r;
    const CUresult r = f();
    if (before != context) driver.cuCtxSetCurrent(before);
    return r;
}

class Moves : private Residence::Memory {
  public:
    // `mutex`: the layer's, which holds it when it calls these functions.
    Moves(const Driver& driver, Granter& granter, GpuWork& work, std::recursive_mutex& mutex,
          std::vector<Promise>& cards, PromisedPieces& promised, Allocations& all);

    Residence& residence() { return residence_; }
    // An allocation lacked memory; whether it has it now.
    bool asks_for_more();
    void note_lack_of_the_driver(std::size_t card, std::uint64_t bytes);
    // Of a piece that is in the store; null: it is on the card.
    const std::byte* contents(std::uint64_t block, std::size_t piece) { return store_.contents(block, piece); }

  private:
    bool quiet() override;
    bool captures() override;
    Lack lacks() override;
    void forget_lack() override;
    void look() override;
    void put_out(std::size_t which, std::uint64_t bytes) override;
    CUresult bring_back(std::size_t which) override;
    void shrink_store() override;
    bool grow_store(std::uint64_t bytes);
    bool add_to_store(std::uint64_t bytes);
    void forget(std::uint64_t block);
    // In a context of that device.
    template <class F> CUresult on(std::size_t card, const F& f) {
        const Allocation::Owner owner = all_.owner_on(static_cast<int>(card));
        return owner == 0 ? CUDA_ERROR_INVALID_CONTEXT : within(driver_, reinterpret_cast<CUcontext>(owner), f);
    }
    // f(address, block) for those that may leave, or are out.
    template <class F> void each_block(std::size_t card, const F& f) {
        all_.blocks().each([&](std::uint64_t address, const Block& block) {
            if (block.device == static_cast<int>(card) && !block.adopted) f(address, block);
        });
    }

    const Driver& driver_;
    Granter& granter_;
    GpuWork& work_;
    std::recursive_mutex& mutex_;
    std::vector<Promise>& cards_;
    PromisedPieces& promised_;
    Allocations& all_;
    DriverCopies copies_;
    Store store_;
    Residence residence_;
    Lack drivers_lack_;
    std::uint64_t growing_ = 0;  // nanoseconds of this move in which the store grew
    bool told_ = false;          // that memory does not come back
    bool told_it_stays_ = false;
};

}  // namespace barcuda
