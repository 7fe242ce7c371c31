// SPDX-License-Identifier: Apache-2.0
// quota.h: counts the device memory of a client that has a limit, by whichever call: allocations, arrays, pools,
// physical memory of cuMemCreate. It stands between the session and the driver: in the driver's table are
// its functions in place of those that allocate and free, so that no row is an exception. What is over answers
// CUDA_ERROR_OUT_OF_MEMORY, and cuMemGetInfo shows the limit as the card's size.
//
// Not counted: what graphs allocate by nodes of theirs; what the driver itself takes for contexts, code and printf, and the math
// libraries for their workspaces.
#pragma once
#include <cstdint>

#include "host-bridge/driver.h"

namespace barcuda {

struct Granter;

// From now on, for the rest of this process: `limit` bytes of each device at most, as `granter` lends them.
void enforce_quota(Driver& driver, Granter& granter, std::uint64_t limit);

}  // namespace barcuda
