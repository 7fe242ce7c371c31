// SPDX-License-Identifier: Apache-2.0
// launch.h: a kernel's parameters, packed as the function's own layout says. A launch and a kernel node need it.
#pragma once
#include <cuda.h>

#include <cstddef>

#include "guest-allocator/driver/module.h"
#include "shm-device/queue/wire.h"

namespace barcuda::guest {

// The packed parameters: in place if the program has packed them itself, else in `room` (of
// wire::most_parameter_bytes).
CUresult pack(const FunctionFacts& facts, void** each, void** extra, std::byte* room, const void*& packed,
              std::size_t& bytes);

}  // namespace barcuda::guest
