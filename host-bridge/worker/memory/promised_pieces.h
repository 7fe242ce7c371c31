// SPDX-License-Identifier: Apache-2.0
// promised_pieces.h: pieces (pieces.h) within what the bridge has promised of each card. What lacks a promise is not
// created, and is noted: the caller may ask for it.
#pragma once
#include <map>
#include <span>
#include <utility>

#include "host-bridge/worker/memory/pieces.h"
#include "host-bridge/worker/memory/promise.h"

namespace barcuda {

class PromisedPieces : public Pieces {
  public:
    // `cards`: for each device; further devices, or all if there are none, need no promise.
    PromisedPieces(Pieces& below, std::span<Promise> cards) : below_(below), cards_(cards) {}

    // Notes what is lacking if not. (If it fails nevertheless, the driver lacks memory that was promised: a stranger
    // has it, and no request would help.)
    bool has_room(int device, std::uint64_t bytes) {
        Promise* const card = card_of(device);
        const bool fits = !card || card->fits(bytes);
        lacks_ = fits ? Lack{} : Lack{device, bytes};
        return fits;
    }
    struct Lack {
        int device = 0;
        std::uint64_t bytes = 0;  // 0: nothing is lacking
    };
    const Lack& lacks() const { return lacks_; }
    void forget_lack() { lacks_ = {}; }

    std::uint64_t reserve(std::uint64_t hint, std::uint64_t bytes) override { return below_.reserve(hint, bytes); }
    CUresult create(int device, std::uint64_t bytes, Handle& piece) override {
        if (!has_room(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        const CUresult r = below_.create(device, bytes, piece);
        if (Promise* const card = card_of(device); card && r == CUDA_SUCCESS) {
            card->take(bytes);
            created_[piece] = {card, bytes};
        }
        return r;
    }
    void release(Handle piece) override {
        below_.release(piece);
        if (const auto its = created_.extract(piece)) its.mapped().first->give(its.mapped().second);
    }
    CUresult map(std::uint64_t address, std::uint64_t bytes, Handle piece) override {
        return below_.map(address, bytes, piece);
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) override { below_.unmap(address, bytes); }
    bool is_shared(Handle piece) const override { return below_.is_shared(piece); }
    CUresult open(std::uint64_t address, std::uint64_t bytes, const Devices& devices, const Devices& before) override {
        return below_.open(address, bytes, devices, before);
    }

  private:
    Promise* card_of(int device) const {
        const auto i = static_cast<std::size_t>(device);
        return i < cards_.size() ? &cards_[i] : nullptr;
    }

    Pieces& below_;
    const std::span<Promise> cards_;
    std::map<Handle, std::pair<Promise*, std::uint64_t>> created_;  // another process's pieces are not among them
    Lack lacks_;
};

}  // namespace barcuda
