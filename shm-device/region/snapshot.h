// SPDX-License-Identifier: Apache-2.0
// snapshot.h: the snapshot of the GPUs' state, written by the bridge's monitor more than once a second, read by any
// process of the guest at any time. A sequence lock: the writer never waits, a reader copies, and copies again if the
// writer came in between.
//
//   writer   sequence odd, fence; contents; sequence even (release)
//   reader   sequence even (acquire); copies; fence; sequence still the same
//
// A reader may see contents of two sweeps before it notices: it looks at offsets before it follows them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shm-device/layout.h"

namespace barcuda::snapshot {

enum class Read : std::uint8_t {
    done,
    absent,  // there has been a sweep, but it did not ask this question
    empty,   // no sweep yet
    busy,    // a writer that has begun does not end
};

// Answer number `n` of `count`, of `to.size()` bytes (a multiple of 8, as `to` is aligned).
Read answer(const barcuda_snapshot& snapshot, std::uint64_t identity, std::size_t n, std::size_t count,
            std::span<std::byte> to) noexcept;

// `found`: how many there are, of which as many as fit are copied.
Read processes(const barcuda_snapshot& snapshot, std::span<barcuda_process> to, std::size_t& found) noexcept;

// The clients that the host has paused, one after another; a pid of 0 ends the list. It is one answer more in the
// snapshot, to no question of NVML's: an older bridge has none.
struct PausedClient {
    std::uint32_t pid;  // the guest's, as the client says
    std::uint32_t how;  // enum barcuda_paused
};
using PausedClients = std::array<PausedClient, BARCUDA_MAX_CHANNELS>;
constexpr std::uint64_t paused_clients = 0x70617573'65640001;  // its identity: of no question, since those are hashes
Read paused(const barcuda_snapshot& snapshot, PausedClients& to) noexcept;

// ---- the monitor: what a sweep has come to, as it is to lie in the region behind the head.
struct Sweep {
    std::span<const barcuda_answers> answers;  // offsets as they will be: see contents_offset()
    std::span<const std::byte> contents;       // what they name
    std::span<const barcuda_process> processes;
    std::uint64_t taken;
};
std::uint32_t contents_offset(std::size_t answers) noexcept;  // of what lies behind so many answers
void write(barcuda_snapshot& snapshot, const Sweep& sweep) noexcept;

}  // namespace barcuda::snapshot
