// SPDX-License-Identifier: Apache-2.0
// schedule.h: what a block asks of its warps.
#pragma once
#include "soft-gpu/ptx/machine.h"

namespace barcuda::soft {

enum class Progress : std::uint8_t { finished, ran, waits };

void begin_warp(Warp& w, const Function& entry, Mask lanes);
Progress run_warp(Warp& w, std::int64_t budget);  // about that many instructions
void complete_barrier(Block& block, unsigned id);
bool meet_block(Warp& w);  // at barrier 0; false if some of its threads are elsewhere: then nothing has changed

}  // namespace barcuda::soft
