// SPDX-License-Identifier: Apache-2.0
// nvidia_smi.h: `barcuda` under the name nvidia-smi, which `barcuda guest enable` gives to it in a guest, is
// `barcuda smi`: it has nvidia-smi's options for what can be asked, and its exit statuses.
#pragma once
#include <string>
#include <vector>

namespace barcuda {

inline constexpr const char* nvidia_smi = "nvidia-smi";
// The command line of `barcuda smi` that means the same; words[0] is the program's name.
std::vector<std::string> as_barcuda(const std::vector<std::string>& words);

}  // namespace barcuda
