// SPDX-License-Identifier: Apache-2.0
// version.h: CUDA's versions, which it counts as 1000 * major + 10 * minor (cuDriverGetVersion, cudaRuntimeGetVersion).
#pragma once
#include <string>

namespace barcuda {

inline std::string cuda_version_text(int version) {  // 13000 is 13.0
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

}  // namespace barcuda
