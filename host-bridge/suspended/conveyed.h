// SPDX-License-Identifier: Apache-2.0
// conveyed.h: a conveyor's frames (between/conveyor.h) into a part of a set, and back.
#pragma once
#include <cstdint>

#include "base/failure.h"
#include "host-bridge/between/conveyor.h"
#include "host-bridge/suspended/frames.h"

namespace barcuda {

// Takes frames until the filler says the end, and at most `most` bytes. The conveyor must live until the writer has
// finished.
Failure pack_conveyor(const Conveyor& from, std::uint64_t most, FrameWriter& to);
// Fills in all frames: several threads decompress each into its slot, and compare its checksum.
Failure feed_conveyor(const FrameReader& from, const Conveyor& to);

}  // namespace barcuda
