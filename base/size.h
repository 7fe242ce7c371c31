// SPDX-License-Identifier: Apache-2.0
// size.h: a number with a unit, as a person types it while a bridge runs: 2G, 1.5G, 4096. (CLI11 reads the options of
// programs.)
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace barcuda {

// Accepts B, K, M, G, T, P and E in either case, as powers of 1024, with or without "iB" or "B". Returns what is wrong;
// empty: nothing.
std::string read_size(std::string_view text, std::uint64_t& size);

}  // namespace barcuda
