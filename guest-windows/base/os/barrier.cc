// SPDX-License-Identifier: Apache-2.0
// barrier.cc: bridge and workers run on another kernel: nothing that one of this system's threads does fences for them.
#include "base/os/barrier.h"

namespace barcuda::os {

bool barrier_everywhere() noexcept { return false; }
bool join_barrier() noexcept { return false; }
bool has_joined_barrier() noexcept { return false; }

}  // namespace barcuda::os
