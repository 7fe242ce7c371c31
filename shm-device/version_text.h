// SPDX-License-Identifier: Apache-2.0
// version_text.h: what --version prints of a program that must fit another build's.
#pragma once
#include <string>

#include "shm-device/layout.h"

namespace barcuda {

// Of --version: with what decides whether a guest and its host fit (docs/versions.md).
inline std::string version_text() {
    return BARCUDA_VERSION ", region layout " + std::to_string(BARCUDA_LAYOUT) + ", packets " +
           std::to_string(BARCUDA_PACKETS);
}

}  // namespace barcuda
