// SPDX-License-Identifier: Apache-2.0
// memory_bytes.h: the contents of a client's device memory as a stream of bytes, and back. The GPU is idle. Each piece
// has its hash, so that what a disk or a network has spoilt is noticed before a program sees it; a piece of zeros has
// no bytes.
#pragma once
#include <cstddef>
#include <functional>
#include <span>

#include "base/failure.h"
#include "host-bridge/worker/births/births.h"
#include "host-bridge/worker/memory/store.h"

namespace barcuda {

// What stands before each piece.
struct PieceHead {
    std::uint64_t address = 0, bytes = 0;  // zeros: there are no more. Of an array: its id
    std::uint64_t hash = 0;                // of the bytes that follow
    std::uint64_t follow = 0;              // 0: all are zeros
};

using WriteBytes = std::function<Failure(std::span<const std::byte>)>;
using ReadBytes = std::function<Failure(std::span<std::byte>)>;  // all of them, or a failure

Failure save_piece(std::uint64_t name, std::span<const std::byte> piece, const WriteBytes& write);
Failure load_piece(std::uint64_t name, std::span<std::byte> piece, const ReadBytes& read);
Failure save_end(const WriteBytes& write);
Failure load_end(const ReadBytes& read);

// `room`: of the host, where copies go to and come from; as large as a piece. The driver copies faster if it is
// registered.
Failure save_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const WriteBytes& write);
// Into the same memory. A failure leaves it in an unknown state.
Failure load_memory(std::span<const Birth::Made> memory, Copies& copies, std::span<std::byte> room,
                    const ReadBytes& read);

}  // namespace barcuda
