// SPDX-License-Identifier: Apache-2.0
// driver_pieces.h: pieces of blocks (pieces.h) by the driver's virtual memory management, and how other processes get
// them: each piece is exported as a descriptor, for which the bridge gives a token. A record with the piece's size and
// the next piece's token stays with the descriptor. What a program passes on stands for the first token
// (bodies/ipc.cc).
#pragma once
#include <array>
#include <map>
#include <set>
#include <vector>

#include "host-bridge/between/driver.h"
#include "host-bridge/worker/memory/blocks.h"
#include "host-bridge/worker/quota/granter.h"

namespace barcuda {

class DriverPieces : public Pieces {
  public:
    DriverPieces(const Driver& driver, Granter& granter) : driver_(driver), granter_(granter) {}

    std::uint64_t reserve(std::uint64_t hint, std::uint64_t bytes) override;
    CUresult create(int device, std::uint64_t bytes, Handle& piece) override;
    void release(Handle piece) override;
    CUresult map(std::uint64_t address, std::uint64_t bytes, Handle piece) override;
    void unmap(std::uint64_t address, std::uint64_t bytes) override;
    CUresult open(std::uint64_t address, std::uint64_t bytes, const Devices& devices, const Devices& before) override;
    bool is_shared(Handle piece) const override { return exported_.contains(piece); }

    struct Facts {
        bool makes_blocks = false;  // it has what blocks need
        bool exports = false;       // its pieces have descriptors
        std::uint64_t bytes = 0, most_pitch = 0;
    };
    const Facts& about(int device);

    // ---- for other processes. A handle in the place of the driver's (cuIpcGetMemHandle), and what is behind it.
    CUresult offer(const Block& block, std::uint64_t offset, std::uint64_t bytes, CUipcMemHandle& handle);
    static bool is_ours(const CUipcMemHandle& handle);  // this or another worker's, and not the driver's
    bool made_here(const CUipcMemHandle& handle) const;
    struct Offered {
        int device = 0;
        std::vector<Block::Piece> pieces;
        std::uint64_t offset = 0, bytes = 0;
    };
    CUresult find(const CUipcMemHandle& handle, Offered& offered);

  private:
    using Token = std::array<char, 32>;  // of a Shared::Handle, which is zeros behind that
    CUresult export_piece(const Block::Piece& piece, Token& next);
    CUresult import_pieces(Token first, Offered& offered);

    const Driver driver_;
    Granter& granter_;
    std::map<int, Facts> facts_;
    std::map<Handle, Token> exported_;
};

}  // namespace barcuda
