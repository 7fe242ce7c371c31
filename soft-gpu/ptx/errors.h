// SPDX-License-Identifier: Apache-2.0
// errors.h: what the engine throws while it reads PTX. Every message names the line and its text.
#pragma once
#include <cuda.h>

#include <string>
#include <string_view>

#include "soft-gpu/engine.h"

namespace barcuda::soft {

// The text is not PTX.
inline Error invalid(int line, const std::string& what) {
    return {CUDA_ERROR_INVALID_PTX, "ptx line " + std::to_string(line) + ": cannot read " + what};
}

// The text is PTX that the software GPU does not run.
inline Error refused(int line, const std::string& what) {
    return {CUDA_ERROR_NOT_SUPPORTED, "ptx line " + std::to_string(line) + ": the software GPU does not run " + what};
}

}  // namespace barcuda::soft
