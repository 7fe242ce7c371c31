// SPDX-License-Identifier: Apache-2.0
// sparse_file.h: a file with holes, the region's for instance, as frames (frames.h), and back.
#pragma once
#include <cstdint>
#include <functional>

#include "base/failure.h"
#include "host-bridge/suspended/frames.h"

namespace barcuda {

// All bytes of a file, `size` of them; what was never written to is not read. `goes_on`: is asked
// before each frame, and its failure ends it.
Failure pack_file(int from, std::uint64_t size, FrameWriter& to, const std::function<Failure()>& goes_on = {});
// Writes all frames into a file, in place: a mapping of it stays what it was. Pages of zeros become holes, where the
// file can have them.
Failure unpack_file(const FrameReader& from, int to);

}  // namespace barcuda
