// SPDX-License-Identifier: Apache-2.0
// pausing.h: `barcuda pause` for other commands.
#pragma once
#include <string>

namespace barcuda {

// Pauses all clients of that VM (without a name: of that region), whose memory stays on the GPU. False: the command has
// said why not, and the clients run as before.
bool hold_all(const char* command, const std::string& region, const std::string& vm, double within);

}  // namespace barcuda
