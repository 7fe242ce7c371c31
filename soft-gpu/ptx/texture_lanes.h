// SPDX-License-Identifier: Apache-2.0
// texture_lanes.h: a warp that samples one texture, all lanes at once.
#pragma once
#include <algorithm>

#include "soft-gpu/ptx/lanes.h"
#include "soft-gpu/texture.h"

namespace barcuda::soft {

bool can_sample_lanes(const TextureObject& t);
// For 32 lanes, whatever their coordinates: the four channels that sample() gives for each. y: for planes.
void sample_lanes(const TextureObject& t, const float* x, const float* y, std::uint32_t (*to)[lane_count]);

}  // namespace barcuda::soft
