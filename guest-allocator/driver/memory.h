// SPDX-License-Identifier: Apache-2.0
// memory.h: pinned memory, for the parts of the driver layer that hand it out under another name.
#pragma once
#include <cuda.h>

#include <cstddef>

namespace barcuda::guest {

// As cuMemHostAlloc; `flags` are those that the heap keeps for the block.
CUresult allocate_pinned(void** p, std::size_t bytes, unsigned flags) noexcept;

}  // namespace barcuda::guest
