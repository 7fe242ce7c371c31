// SPDX-License-Identifier: Apache-2.0
// conveyed.h: what a worker sends into parts of a set: a conveyor's frames (between/conveyor.h), and back, or a pipe's
// bytes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/failure.h"
#include "base/message.h"
#include "host-bridge/between/conveyor.h"
#include "host-bridge/suspended/frames.h"

namespace barcuda {

// Takes frames until the filler says the end, and at most `most` bytes. The conveyor must live until the writer has
// finished.
Failure pack_conveyor(const Conveyor& from, std::uint64_t most, FrameWriter& to);
// Fills in all frames: several threads decompress each into its slot, and compare its checksum.
Failure feed_conveyor(const FrameReader& from, const Conveyor& to);
// Reads a pipe to its end, and at most `most` bytes. `within`: after this a worker that writes nothing does not answer.
Failure drain(const File& from, std::uint64_t most, std::chrono::milliseconds within,
              const std::function<Failure(std::span<const std::byte>)>& to);

}  // namespace barcuda
