// SPDX-License-Identifier: Apache-2.0
// tally.h: what the processes of a campaign have in common: how much is left to do, what was done, and how it ended. It
// lies in memory that they share; each number only ever grows.
#pragma once
#include <atomic>
#include <cstdint>

#include "tests/hostile/known.h"

namespace barcuda::hostile {

using Count = std::atomic<std::uint64_t>;

// How a session ended.
enum class End : std::uint8_t { finished, refused, dead, gone, stuck, faulted, no_memory, no_channel, count };
constexpr const char* end_names[] = {"finished", "refused", "dead",      "gone",
                                     "stuck",    "faulted", "no memory", "no channel"};

struct RowTally {
    Count sent, succeeded, failed;  // the rest was not answered
};

struct Tally {
    Tokens tokens;
    Count commands, lies, flips, posted_failures;
    Count sessions, ends[static_cast<std::size_t>(End::count)];
    Count stuck_in[static_cast<std::size_t>(Op::count)];
    RowTally rows[static_cast<std::size_t>(Op::count)];
    std::uint64_t most_commands, ends_at;  // limits; ends_at in seconds of the steady clock, 0: none
    std::atomic<bool> stop;

    RowTally& of(Op op) { return rows[static_cast<std::size_t>(op)]; }
};

}  // namespace barcuda::hostile
