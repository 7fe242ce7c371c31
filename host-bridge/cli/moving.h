// SPDX-License-Identifier: Apache-2.0
// moving.h: what both ends of a move ask of a region's file.
#pragma once
#include <string>

namespace barcuda {

// Which region of which boot, at which epoch: a VM that moves away from it.
struct MoveSource {
    std::string text;  // empty: there is no region of that path
};
MoveSource source_of(const std::string& region);

// Whether a bridge, its keeper or one of its workers has the region's lock.
bool is_served(const std::string& region);

}  // namespace barcuda
